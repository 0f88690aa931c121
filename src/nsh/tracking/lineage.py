"""The revision of code and data of a result, from git and dvc.lock. Knows nothing of MLflow.

A commit is not enough, because results are committed after the run that made them; nor is the whole dvc.lock, which
changes while the pipeline runs. A pair's own entries in dvc.lock, from download to export, are final before it is
evaluated, are the same in every clone, and can be found in any commit.
"""

import getpass
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nsh.project.paths import Pair

SHARED_STAGES = ("download", "split", "embed")
SOURCES = ("src", "pipeline", "params.yaml", "dvc.yaml")  # the files in git that a run depends on


def revision_tags(folder: Path, pair: Pair) -> dict[str, str]:
    """Tags of the revision of code and data of `pair`; unknown ones are left out."""
    tags: dict[str, str] = {}
    commit = git_output(folder, "rev-parse", "HEAD")
    if commit:
        changed = git_output(folder, "status", "--porcelain", "--", *SOURCES)
        tags |= {"mlflow.source.git.commit": commit, "git_commit": commit, "git_dirty": str(bool(changed)).lower()}
    lock = lock_digest(folder, pair)
    return tags | ({"dvc_lock_md5": lock} if lock else {})


def origin_tags() -> dict[str, str]:
    """Tags of a run's origin: user, program, and the experiment's name under `dvc exp run`."""
    tags = {"mlflow.source.name": Path(sys.argv[0]).name, "mlflow.source.type": "LOCAL"}
    with suppress(OSError, KeyError):  # a container's user may have no name
        tags["mlflow.user"] = getpass.getuser()
    experiment = os.environ.get("DVC_EXP_NAME", "")
    return tags | ({"dvc_experiment": experiment} if experiment else {})


def committed_differences(folder: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The `values`, by dotted keys of params.yaml, that differ from the last commit's params.yaml.

    Empty if there is no commit with a params.yaml.
    """
    committed = yaml.safe_load(git_output(folder, "show", "HEAD:./params.yaml") or "null")
    if not isinstance(committed, Mapping):
        return {}
    return {
        key: value
        for key, value in values.items()
        if "." in key and _with_numbers(_look_up(committed, key)) != _with_numbers(value)
    }


def lock_digest(folder: Path, pair: Pair) -> str | None:
    """MD5 of the pair's entries in dvc.lock, download to export; None if one is missing."""
    stages = read_lock(folder)
    names = [*SHARED_STAGES, f"train@{pair.key}", f"export@{pair.key}"]
    if not set(names) <= stages.keys():
        return None
    entries = json.dumps([stages[name] for name in names], sort_keys=True)
    return hashlib.md5(entries.encode(), usedforsecurity=False).hexdigest()


def changed_parameters(folder: Path, pair: Pair) -> list[str]:
    """Keys of params.yaml whose values differ from those in dvc.lock, with which the pair's results were made.

    Empty if dvc.lock does not have the pair.
    """
    stages = read_lock(folder)
    current = yaml.safe_load((folder / "params.yaml").read_text(encoding="utf-8"))
    names = [*SHARED_STAGES, *(f"{stage}@{pair.key}" for stage in ("train", "export", "encode", "evaluate"))]
    changed = [key for name in names if name in stages for key in changed_values(stages[name], current)]
    return list(dict.fromkeys(changed))


def changed_values(entry: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Keys of an entry of dvc.lock whose values in params.yaml differ."""
    recorded = entry.get("params", {}).get("params.yaml", {})
    return [key for key, value in recorded.items() if _with_numbers(_look_up(current, key)) != _with_numbers(value)]


def _with_numbers(value: Any) -> Any:
    """Convert every string in `value` that is a number: PyYAML reads 3e-4 as text, DVC as a number."""
    if isinstance(value, Mapping):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _look_up(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def read_lock(folder: Path) -> dict[str, Any]:
    """The entries of dvc.lock by stage name; empty if there is no dvc.lock."""
    try:
        lock = yaml.safe_load((folder / "dvc.lock").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    stages: dict[str, Any] = (lock or {}).get("stages", {})
    return stages


def git_output(folder: Path, *arguments: str) -> str:
    """Output of a git command; empty without git or a repository."""
    try:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
