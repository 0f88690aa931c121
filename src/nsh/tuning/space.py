"""The values that a search may try of a method's parameters. Knows no optimiser.

The space follows from the declarations (`nsh.config.declarations`), so that a new method can be searched at once: a
number may be from a quarter of its value in params.yaml to four times that, on a logarithmic scale, in its declared
limits. A number with an upper limit also keeps to a quarter to four times its distance from it: 0.99 of at most 1 is
tried from 0.96 to 0.9975.

Kept as in params.yaml: choices of words and truths, because they are readings of a paper; numbers at a limit, which
have no scale; and `KEPT`.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from nsh.config.declarations import read_declaration
from nsh.errors import ConfigError

FACTOR = 4
KEPT = ("epochs", "images")
"""More of them cost time, so that a search would buy its gain."""
DIGITS = 4  # of a value that is tried


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`, on a logarithmic scale; whole numbers if these are `int`.

    Attributes:
        default: the value in params.yaml, between the two.
        low: the smallest.
        high: the largest.
    """

    default: float
    low: float
    high: float

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are allowed."""
        return isinstance(self.default, int)

    def tidy(self, value: float) -> float:
        """The value as it is trained with and written: of `DIGITS` digits, but the default as it is."""
        return value if self.is_whole or value == self.default else float(f"{value:.{DIGITS}g}")


Space = Mapping[str, Range]
"""Ranges by the parameters' names."""


def find_space(method: str, values: Mapping[str, Any], *, only: Collection[str] = ()) -> Space:
    """The ranges of a method's parameters.

    Args:
        method: one of params.yaml's.
        values: all its parameters in params.yaml.
        only: names of parameters to search; empty: all that can be.

    Raises:
        ConfigError: nothing can be searched, or not what `only` names.
    """
    found = dict(_find(read_declaration(method).block, values))
    unknown = [name for name in only if name not in found]
    if unknown or not found:
        asked = f"{', '.join(unknown)} of {method}" if found else f"a parameter of {method}"
        allowed = f"allowed are {', '.join(found)}" if found else "it has no number to search: choose another method"
        raise ConfigError(f"asked to search {asked}: {allowed}")
    return {name: span for name, span in found.items() if not only or name in only}


def _find(block: type[Any], values: Mapping[str, Any]) -> Iterator[tuple[str, Range]]:
    for name, field in block.__pydantic_fields__.items():
        value = values[name]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or name in KEPT or get_origin(field.annotation) is Literal:
            continue
        span = _around(value, *_limits(field))
        if span.low < span.high:
            yield name, span


def _around(value: float, lowest: float, highest: float) -> Range:
    low, high = value / FACTOR, value * FACTOR
    if highest < math.inf:
        low = max(low, highest - FACTOR * (highest - value))
        high = min(high, highest - (highest - value) / FACTOR)
    if isinstance(value, int):
        return Range(value, max(int(lowest), math.ceil(low)), math.floor(high))
    return Range(value, low, high)


def _limits(field: FieldInfo) -> tuple[float, float]:
    """The declared lowest and highest number; of a union, those of its numbers."""
    parts = [FieldInfo.from_annotation(part) for part in get_args(field.annotation)]
    rules = [rule for declared in (field, *parts) for rule in declared.metadata]

    def find(*names: str) -> list[float]:
        return [getattr(rule, name) for rule in rules for name in names if getattr(rule, name, None) is not None]

    return max(find("ge", "gt"), default=-math.inf), min(find("le", "lt"), default=math.inf)
