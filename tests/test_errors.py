import inspect
import re

import pytest

from nsh import errors

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if member.__module__ == errors.__name__]


def drawn_tree():
    """(name, parent) pairs of the docstring's drawing; four columns are one level."""
    ancestors, pairs = {0: "NshError"}, [("NshError", None)]
    for match in re.finditer(r"^ {4}([│ ├└─]+) (\w+)", errors.__doc__, flags=re.MULTILINE):
        level = (len(match.group(1)) + 1) // 4
        ancestors[level] = match.group(2)
        pairs.append((match.group(2), ancestors[level - 1]))
    return pairs


def test_the_drawn_tree_is_the_real_one():
    real = [(c.__name__, None if c is errors.NshError else c.__base__.__name__) for c in CLASSES]
    assert sorted(drawn_tree(), key=str) == sorted(real, key=str)


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_is_the_users_to_mend_and_keeps_its_message(error):
    assert issubclass(error, errors.NshError)
    assert str(error("found 3, allowed 1 to 2")) == "found 3, allowed 1 to 2"
    assert error.__doc__
