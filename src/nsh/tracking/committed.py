"""Compares the present results with the committed ones, and finds where they begin to differ.

It compares dvc.lock with that of the last commit. A stage with equal inputs and other outputs was computed differently;
a stage with other inputs had another task.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from nsh.tracking.lineage import git_output, read_lock

RESULTS = ("dvc.lock", "metrics", "reports")


def compare_with_commit(folder: Path) -> str:
    """One sentence on the results that differ from the last commit's; empty if none does, or if params.yaml does.

    Args:
        folder: the project's; without git or without a commit the result is empty.
    """
    here = git_output(folder, "diff", "--name-only", "HEAD", "--", "params.yaml", *RESULTS).splitlines()
    if not here or "params.yaml" in here:  # other parameters give other results
        return ""
    before = (yaml.safe_load(git_output(folder, "show", "HEAD:dvc.lock")) or {}).get("stages", {})
    after = read_lock(folder)
    computed = [name for name in after if name in before and _inputs(after[name]) == _inputs(before[name])]
    computed = [name for name in computed if _outputs(after[name]) != _outputs(before[name])]
    what = f"{len(here)} file(s) in {' and '.join(sorted({name.partition('/')[0] for name in here}))}"
    sentence = f"results differ from the committed ones: {what} (git diff --stat shows them)."
    if computed:
        return (
            f"{sentence} From the committed inputs, {computed[0]} made other bytes here: "
            "this machine computes differently (README, section Two commands, says where the same bytes are promised)."
        )
    changed = _changed_inputs(after, before)
    return f"{sentence} {changed} changed since they were committed." if changed else sentence


def _inputs(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry.get("cmd"), _digests(entry.get("deps", ())), entry.get("params")


def _outputs(entry: Mapping[str, Any]) -> dict[str, str]:
    return _digests(entry.get("outs", ()))


def _digests(items: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {item["path"]: item["md5"] for item in items}


def _changed_inputs(after: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Dependencies that no stage makes and that differ from the committed ones."""
    made = {path for entry in after.values() for path in _outputs(entry)}
    now, then = (
        {path: md5 for entry in lock.values() for path, md5 in _digests(entry.get("deps", ())).items()}
        for lock in (after, before)
    )
    return ", ".join(sorted(path for path in now if path not in made and now[path] != then.get(path)))
