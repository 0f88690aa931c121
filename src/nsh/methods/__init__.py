"""The methods by name. A new one is one file, one test with an oracle, and one line in `METHODS`."""

from collections.abc import Callable, Mapping
from typing import Any

from nsh.core.errors import ConfigError
from nsh.methods.base import HashHead, Loop, Method, Objective, Report, Schedule, TrainingData
from nsh.methods.itq import Itq
from nsh.methods.nsh import Nsh

METHODS: dict[str, Callable[..., Method]] = {
    "nsh": Nsh,
    "itq": Itq,
}


def create(name: str, parameters: Mapping[str, Any]) -> Method:
    """The method called `name` with its block of params.yaml.

    Raises:
        ConfigError: no such method, or parameters it does not have or lacks.
    """
    if name not in METHODS:
        raise ConfigError(f"found method {name!r}, allowed are {', '.join(METHODS)}")
    try:
        return METHODS[name](**parameters)
    except TypeError as error:
        raise ConfigError(f"methods.{name}: {error}") from error


__all__ = ["METHODS", "HashHead", "Loop", "Method", "Objective", "Report", "Schedule", "TrainingData", "create"]
