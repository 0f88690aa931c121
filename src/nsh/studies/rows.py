"""The rows of the table: which trials make them, which lines of its record they show. Measures and writes nothing."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from nsh.config import Params
from nsh.methods import METHODS
from nsh.studies.document import commit
from nsh.studies.record import Line, identify, make_line
from nsh.studies.setting import Setting
from nsh.studies.sweep import SHORT
from nsh.studies.trials import Trial, make_trial, read_results
from nsh.terminal import say

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


def name_rows(params: Params) -> dict[str, str]:
    """The rows of the table, by what is common to the trials of each."""
    rows: dict[str, tuple[str, Mapping[str, Any]]] = {method: (method, {}) for method in METHODS} | dict(CONTROLS)
    trials = {
        row: make_trial(params, method, bits=1, seed=0, changed=changed) for row, (method, changed) in rows.items()
    }
    return {_key(trial): row for row, trial in trials.items()}


def choose_lines(recorded: Sequence[Line], rows: Mapping[str, str], setting: Setting) -> list[Line]:
    """The lines that were measured with today's parameters on these images; says how many others there are."""
    wanted = {row: identify(**json.loads(key), setting=setting) for key, row in rows.items()}
    chosen = [line for line in recorded if line.identity == wanted.get(line.row)]
    if len(chosen) < len(recorded):
        say(f"recorded trials of other parameters or images, left out: {len(recorded) - len(chosen)}")
    return chosen


def choose_missing(trials: Sequence[Trial], recorded: Sequence[Line], rows: Mapping[str, str]) -> list[Trial]:
    """The trials that the record lacks."""
    there = {line.key for line in recorded}
    return [trial for trial in trials if (rows[_key(trial)], trial.bits, trial.seed) not in there]


def measured_lines(setting: Setting, rows: Mapping[str, str], *, asked: Sequence[int]) -> list[Line]:
    """Lines of all results that are here, without short codes that are not `asked` for."""
    made = commit()
    results = [result for result in read_results(setting) if _key(result.trial) in rows]
    lines = [make_line(rows[_key(result.trial)], result, setting, commit=made) for result in results]
    return hide_short(lines, asked=asked)


def hide_short(lines: Sequence[Line], *, asked: Sequence[int]) -> list[Line]:
    """Without the code lengths that `nsh.studies.sweep` shows, unless they are `asked` for."""
    hidden = set(SHORT["bits"]) - set(asked)
    return [line for line in lines if line.bits not in hidden]


def _key(trial: Trial) -> str:
    """What is common to the trials of a row."""
    return json.dumps({"method": trial.method, "parameters": trial.parameters}, sort_keys=True)
