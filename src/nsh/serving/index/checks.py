"""Checks of ids, metadata and numbers that are passed to an index. Knows nothing of how they are stored."""

import operator
from collections.abc import Mapping, Sequence

from nsh.core.names import listed
from nsh.errors import CodesError


def check_ids(ids: Sequence[str]) -> None:
    """Make sure that ids can be stored.

    Raises:
        CodesError: an id is no text, is empty, is not valid UTF-8, has a NUL, or occurs twice.
    """
    if not all(ids) or not storable(ids):
        culprit = next(name for name in ids if not name or not storable([name]))
        raise CodesError(f"found the id {culprit!r}: an id is a text of at least one character, without NUL")
    if len(set(ids)) != len(ids):
        raise CodesError(f"found {listed(_repeated(ids))} more than once: give every item its own id")


def check_metadata(metadata: Sequence[Mapping[str, str]]) -> None:
    """Make sure that metadata can be stored.

    Raises:
        CodesError: a name or a value is no text, is not valid UTF-8, or has a NUL.
    """
    texts = [text for item in metadata for text in (*item.keys(), *item.values())]
    if not storable(texts):
        culprit = next(text for text in texts if not storable([text]))
        raise CodesError(f"found {culprit!r} in the metadata: names and values are texts, without NUL")


def whole(name: str, value: int, *, least: int) -> int:
    """Return the value if it is a whole number of at least `least`.

    Raises:
        CodesError: it is not.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise CodesError(f"found {name} = {value!r}: a whole number of at least {least} is allowed")
    return number


def check_filter(texts: Sequence[str]) -> None:
    """Make sure that an item can match these parts of a filter.

    Raises:
        CodesError: one is no text, is not valid UTF-8, or has a NUL.
    """
    if not storable(texts):
        culprit = next(text for text in texts if not storable([text]))
        raise CodesError(f"found {culprit!r} in the filter: ids, names and values are texts, without NUL")


def storable(texts: Sequence[str]) -> bool:
    """Whether all are texts that a database of UTF-8 can hold, without NUL."""
    try:
        joined = "".join(texts)
        joined.encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return "\0" not in joined


def _repeated(names: Sequence[str]) -> list[str]:
    seen, repeated = set(), dict[str, None]()
    for name in names:
        if name in seen:
            repeated[name] = None
        seen.add(name)
    return list(repeated)
