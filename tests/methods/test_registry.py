"""Methods by name."""

import pytest

from nsh.config.methods import Methods
from nsh.errors import ConfigError
from nsh.methods import METHODS, create


def test_every_method_of_the_parameters_is_registered_under_its_own_name():
    assert set(METHODS) == set(Methods.model_fields)
    assert create("itq", {"iterations": 3}).name == "itq"


def test_an_unknown_method_names_the_known_ones():
    with pytest.raises(ConfigError, match=f"found method 'nhs', allowed are {', '.join(METHODS)}"):
        create("nhs", {})


def test_a_parameter_that_a_method_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"methods\.itq: .*'rounds'"):
        create("itq", {"iterations": 3, "rounds": 1})
