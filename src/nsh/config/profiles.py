"""Profiles: values that replace those of params.yaml. Everything else stays as in params.yaml, with its comments.

    matrix:
      bits: [16, 32]
    split:
      train: null    # a reason of its own

Only values that are there can be changed; a list is taken whole.
"""

import io
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.representer import RoundTripRepresenter

from nsh.errors import ConfigError
from nsh.system.files import expand_home


class Change(NamedTuple):
    """A value of a profile that is not the default's."""

    key: str  # dotted
    default: Any
    value: Any


def compose(default: str, profile: str, *, name: str) -> tuple[str, list[Change]]:
    """The text of params.yaml with the values of a profile, and the changes.

    Args:
        default: params.yaml.
        profile: the profile. DVC, which watches `dataset.root`, knows no ~, so that a path at home is written out.
        name: what the profile is called in messages.

    Raises:
        ConfigError: the profile is no YAML, or names what params.yaml does not have.
    """
    yaml = _open_yaml()
    values, wanted = _load(yaml, default, "params.yaml"), _load(yaml, profile, name)
    changes = list(_lay(wanted, values, name=name))
    text = io.StringIO()
    yaml.dump(values, text)
    return text.getvalue(), changes


def _open_yaml() -> YAML:
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.preserve_quotes = True
    yaml.width = 10_000  # no line is broken
    return yaml


class _Representer(RoundTripRepresenter):
    """Writes null, where ruamel.yaml leaves the value out."""


_Representer.add_representer(type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", "null"))


def _load(yaml: YAML, profile: str, name: str) -> Mapping[str, Any]:
    try:
        values = yaml.load(profile) or {}
    except YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {error}") from error
    if not isinstance(values, Mapping):
        raise ConfigError(f"{name}: found {values!r}; blocks of params.yaml are wanted, with the values that differ")
    root = values.get("dataset", {}).get("root") if isinstance(values.get("dataset"), Mapping) else None
    if isinstance(root, str):
        values["dataset"]["root"] = expand_home(root)
    return values


def _lay(wanted: Mapping[str, Any], values: Any, *, name: str, within: str = "") -> Iterator[Change]:
    for key, value in wanted.items():
        place = f"{within}{key}"
        if key not in values:
            raise ConfigError(f"{name}: {place}: no such parameter in params.yaml")
        if isinstance(value, Mapping) and isinstance(values[key], Mapping):
            yield from _lay(value, values[key], name=name, within=f"{place}.")
        elif value != values[key]:
            yield Change(place, values[key], value)
            values[key] = value
