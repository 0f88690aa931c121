"""The run times of the stages of the present results. Each stage records its time (`nsh.system.command.run_stage`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nsh.config import Params
from nsh.errors import TrackingError
from nsh.project.paths import pairs_of
from nsh.system.command import TIMES
from nsh.tracking.lineage import changed_values, read_lock


def stage_times(folder: Path, params: Params) -> dict[str, float]:
    """Seconds of the last run of each stage, slowest first, by the stage's name in DVC.

    Only stages of the present matrix count, and only runs with the parameters in dvc.lock, not those of a former
    profile.
    """
    if not (folder / TIMES).exists():
        return {}
    lock = read_lock(folder)
    pairs = {pair.key for pair in pairs_of(params.matrix.methods, params.matrix.bits)}
    seconds = {
        name: record["seconds"]
        for record in _read(folder / TIMES)
        if (name := _dvc_name(record["stage"])) in lock
        and name.partition("@")[2] in {"", *pairs}
        and _ran_with(lock[name], folder / TIMES.with_name("params") / record.get("params", ""))
    }
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return [line | {"stage": str(line["stage"]), "seconds": float(line["seconds"])} for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise TrackingError(
            f"{path} is damaged ({error}): delete it, the next run of a stage begins it anew"
        ) from error


def _dvc_name(stage: str) -> str:
    """The stage's name in DVC, of its name and arguments: "train --method nsh --bits 16" is train@nsh-16."""
    name, *arguments = stage.split()
    return "@".join([name, "-".join(arguments[1::2])]) if arguments else name


def _ran_with(entry: Mapping[str, Any], params: Path) -> bool:
    return params.is_file() and not changed_values(entry, yaml.safe_load(params.read_text(encoding="utf-8")))
