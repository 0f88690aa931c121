"""Writes the values that a search found as a profile, for `make repro PROFILE=tuned-<method>`. Knows no study.

A profile is laid over the committed params.yaml. So it holds, beside the values that were found, those in which the
params.yaml of the search differed from the committed one: of another profile, or the user's own.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nsh.config import Params, read_params
from nsh.config.applying import PARAMS, PROFILES, git
from nsh.config.params import parse_params
from nsh.core.nested import flatten
from nsh.project.paths import Pair
from nsh.system.files import write_text

AS_IT_WAS = "as in the params.yaml of the search"


def profile_path(pair: Pair) -> Path:
    """The profile of a method; a search at another code length replaces it."""
    return PROFILES / f"tuned-{pair.method}.yaml"


def read_base() -> Params:
    """The committed params.yaml, or without git the one that is there.

    Raises:
        ConfigError: it breaks a rule.
    """
    committed = git("show", f"HEAD:./{PARAMS}").decode()
    return parse_params(committed, source=f"the committed {PARAMS}") if committed else read_params(PARAMS)


def write_profile(
    path: Path, found: Params, *, base: Params, pair: Pair, heading: str, reasons: Mapping[str, str]
) -> None:
    """Write what differs from `base`, each value with its reason.

    Args:
        path: the file.
        found: the parameters of the search, with the values that it found.
        base: the committed parameters.
        pair: the method and code length, which the profile adds to the matrix if it lacks them.
        heading: lines at the top, as a comment.
        reasons: by dotted keys.
    """
    before, after = (flatten(params.model_dump(mode="json")) for params in (base, found))
    for key, name in (("matrix.methods", pair.method), ("matrix.bits", pair.bits)):
        after[key] = after[key] if name in after[key] else [*after[key], name]
    changed = {key: value for key, value in after.items() if value != before.get(key)}
    comments = "".join(f"# {line}\n" for line in heading.splitlines())
    write_text(path, comments + "".join(f"{line}\n" for line in _lines(changed, reasons)))


def _lines(values: Mapping[str, Any], reasons: Mapping[str, str]) -> Iterator[str]:
    """YAML of values by dotted keys, which are in the order of their blocks."""
    opened: list[str] = []
    for key, value in values.items():
        *blocks, name = key.split(".")
        for depth, block in enumerate(blocks):
            if opened[: depth + 1] != blocks[: depth + 1]:
                yield f"{'  ' * depth}{block}:"
        opened = blocks
        yield f"{'  ' * len(blocks)}{name}: {json.dumps(value)}  # {reasons.get(key, AS_IT_WAS)}"
