"""The examples in the docstrings of the modules that know addresses and names."""

import doctest

import pytest

from nsh.serving.sources import addresses, archives, members, names
from nsh.serving.sources.addresses import without_secrets


@pytest.mark.parametrize("module", [addresses, archives, members, names])
def test_examples_hold(module):
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize(
    "query",
    [
        "X-Goog-Signature=k&X-Goog-Credential=k",
        "AWSAccessKeyId=k&Signature=k&Expires=k",
        "sv=k&se=k&sp=k&sig=k&skoid=k",
        "Policy=k&Key-Pair-Id=k",
        "access_token=k",
        "api_key=k",
        "x-oss-signature=k",
    ],
)
def test_parameters_that_sign_are_left_out(query):
    assert without_secrets(f"https://host/a.jpg?size=9&{query}") == "https://host/a.jpg?size=9"
