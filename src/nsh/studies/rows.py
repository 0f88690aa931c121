"""The rows of the table: which trials make them, which lines of the record they show. Measures and writes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from nsh.config import Params
from nsh.methods import METHODS
from nsh.studies.record import Line, identify
from nsh.studies.setting import Setting
from nsh.studies.sweep import SHORT
from nsh.studies.trials import Trial, make_trial

CONTROLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nsh_plus, sorting: 0": ("nsh_plus", {"sorting": 0.0}),
}
"""Rows that show what a part of a method is worth: the method, and its parameters that differ."""
ROWS = (*METHODS, *CONTROLS)


def make_trials(params: Params, methods: Sequence[str], *, bits: Sequence[int], seeds: int) -> list[Trial]:
    """Seed by seed, so that a table of one seed is there long before all are."""
    return [
        make_trial(params, method, bits=length, seed=seed)
        for seed in range(seeds)
        for length in bits
        for method in methods
    ]


def make_controls(params: Params, methods: Sequence[str], *, bits: Sequence[int], seeds: int) -> list[Trial]:
    """The trials of the control rows of `methods`."""
    return [
        make_trial(params, method, bits=length, seed=seed, changed=changed)
        for method, changed in CONTROLS.values()
        if method in methods
        for length in bits
        for seed in range(seeds)
    ]


def choose_lines(
    lines: Sequence[Line], params: Params, setting: Setting, *, asked: Sequence[int]
) -> list[tuple[str, Line]]:
    """The lines with today's parameters on these images, each with its row; short codes where they are `asked` for."""
    changes: dict[str, tuple[str, Mapping[str, Any]]] = {method: (method, {}) for method in METHODS} | dict(CONTROLS)
    rows = {}
    for row, (method, changed) in changes.items():
        rows[identify(make_trial(params, method, bits=1, seed=0, changed=changed), setting)] = row
    hidden = set(SHORT["bits"]) - set(asked)
    return [(rows[line.identity], line) for line in lines if line.identity in rows and line.bits not in hidden]
