"""The methods by name. A new method is one file, one test with an oracle, and one line in `METHODS`.

A method's file is imported at its first use, so that a stage depends on the code of its own method alone. The shared
parts of methods are in `nsh.objectives`.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nsh.errors import ConfigError
from nsh.objectives.base import HashHead, Loop, Method, Objective, Report, Schedule, TrainingData

METHODS = {
    "nsh": "Nsh",
    "itq": "Itq",
    "lsh": "Lsh",
    "pcah": "Pcah",
    "sh": "Sh",
    "cibhash": "CibHash",
    "greedyhash": "GreedyHash",
    "mbe": "Mbe",
    "sdc": "Sdc",
    "crovca": "Crovca",
    "sgh": "Sgh",
    "deepbit": "DeepBit",
    "mls3rduh": "Mls3rduh",
    "tbh": "Tbh",
    "agh": "Agh",
    "dgh": "Dgh",
    "cimon": "Cimon",
    "bgan": "Bgan",
    "bingan": "Bingan",
    "hashgan": "Hashgan",
    "dvb": "Dvb",
    "distillhash": "DistillHash",
    "date": "Date",
    "hashing_baseline": "HashingBaseline",
    "oh": "Oh",
    "nsh_plus": "NshPlus",
    "nsh_nested": "NshNested",
}
"""Name of a method and of its file, and the class in it."""


def create(name: str, parameters: Mapping[str, Any]) -> Method:
    """Make the method `name` with the parameters of its block in params.yaml.

    Raises:
        ConfigError: no such method, parameters it does not have, or values that do not go together.
    """
    if name not in METHODS:
        raise ConfigError(f"found method {name!r}, allowed are {', '.join(METHODS)}")
    make = getattr(import_module(f"nsh.methods.{name}"), METHODS[name])
    try:
        method: Method = make(**parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"methods.{name}: {error}") from error
    return method


__all__ = ["METHODS", "HashHead", "Loop", "Method", "Objective", "Report", "Schedule", "TrainingData", "create"]
