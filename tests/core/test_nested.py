"""Blocks within blocks, by their keys with dots."""

from nsh.core.nested import flatten


def test_keys_are_joined_by_dots_in_their_order():
    values = {"b": 1, "a": {"d": [2], "c": {"e": None}}, "f": {}}
    assert list(flatten(values).items()) == [("b", 1), ("a.d", [2]), ("a.c.e", None)]


def test_nothing_gives_nothing():
    assert flatten({}) == {}
