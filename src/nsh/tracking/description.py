"""One page about a registered version: where it comes from, what it is worth, and who made it champion."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nsh.tracking.challenger import CHALLENGER, CHAMPION, GATES
from nsh.tracking.champions import Promotion, former_champions, read_history
from nsh.tracking.live import DURATION
from nsh.tracking.recorded import Recorded, read_recorded
from nsh.tracking.recording import K_PREFIX
from nsh.tracking.registry import find_version
from nsh.tracking.runs import CURVE_PREFIX
from nsh.tracking.store import existing_client, plain_errors

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.entities.model_registry import ModelVersion

UNKNOWN = "not known"
Section = dict[str, str]


def describe(folder: Path, model: str) -> dict[str, Section]:
    """Origin, figures and promotions of a version: text by name, by section.

    Args:
        folder: the project's.
        model: `name` (its champion, without one its challenger), `name/version` or `name@alias`.

    Raises:
        TrackingError: there is no such model, version or alias.
    """
    client, uri = existing_client(folder)
    with plain_errors(uri):
        version = find_version(client, model, default=(CHAMPION, CHALLENGER))
        name = str(version.name)
        results = [result for result in read_recorded(client, name) if result.version == str(version.version)]
        newest = [(result, client.get_run(result.run_id)) for result in results[:1]]
        history, former = read_history(client, name), former_champions(client, name)
    page = {"encoder": _encoder(version), "evaluation": {"run": UNKNOWN}}
    for result, run in newest:
        page |= {"evaluation": _evaluation(result, run), "code": _code(run), "training": _training(run)}
        page |= {"parameters": _parameters(run), "figures": _figures(run)}
    return page | {"champions": _champions(history, former)}


def _encoder(version: "ModelVersion") -> Section:
    tags = version.tags
    agreement = tags.get("bit_agreement")
    return {
        "version": f"{version.name}/{version.version}",
        "aliases": ", ".join(sorted(version.aliases)) or "none",
        "registered": _time(version.creation_timestamp),
        "identity": tags.get("encoder_identity", UNKNOWN),
        "file": f"sha256 {tags.get('encoder_sha256', UNKNOWN)}",
        "code": f"{tags.get('bits', UNKNOWN)} bits by {tags.get('method', UNKNOWN)}",
        "parity": f"{float(agreement):.4%} of the bits are torch's" if agreement else UNKNOWN,
        "gates": tags.get(GATES, "never judged"),
    }


def _evaluation(result: Recorded, run: "Run") -> Section:
    images = ", ".join(f"{count} {part}" for part, count in result.counts.items())
    return {
        "run": f"{run.info.run_name} ({run.info.run_id})",
        "data set": run.data.params.get("dataset.name", UNKNOWN),
        "split": result.split_sha256 or UNKNOWN,
        "images": images or UNKNOWN,
        "trial": "yes" if result.trial else "no",
    }


def _code(run: "Run") -> Section:
    tags = run.data.tags
    dirty = {"true": ", with changes that it does not have", "false": ""}.get(tags.get("git_dirty", ""), "")
    return {
        "commit": tags.get("git_commit", UNKNOWN) + dirty,
        "dvc.lock": f"md5 {tags.get('dvc_lock_md5', UNKNOWN)} of the pair's entries",
    }


def _training(run: "Run") -> Section:
    tags, seconds = run.data.tags, run.data.metrics.get(DURATION)
    return {
        "by": f"{tags.get('mlflow.user', UNKNOWN)}, {tags.get('mlflow.source.name', UNKNOWN)}",
        "started": _time(run.info.start_time),
        "seconds": UNKNOWN if seconds is None else f"{seconds:.1f}",
        "changed": tags.get("changed", "nothing, beside the committed params.yaml"),
    }


def _parameters(run: "Run") -> Section:
    """By their block in params.yaml."""
    blocks: dict[str, list[str]] = {}
    for key, value in sorted(run.data.params.items()):
        block, _, name = key.rpartition(".")
        if block:
            blocks.setdefault(block, []).append(f"{name} {value}")
    return {block: ", ".join(values) for block, values in blocks.items()}


def _figures(run: "Run") -> Section:
    """Those of the whole evaluation; the names of those that have one hold k."""
    left_out = (CURVE_PREFIX, K_PREFIX, DURATION)
    figures: Iterable[tuple[str, float]] = sorted(run.data.metrics.items())
    return {name: f"{value:.6g}" for name, value in figures if not name.startswith(left_out)}


def _champions(history: Sequence[Promotion], former: Sequence[str]) -> Section:
    changes = {
        f"{number}. {change.at}": f"version {change.version} after {change.before or 'none'}, by {change.by}: "
        + change.gate
        + f"; forced: {change.reason}" * bool(change.reason)
        for number, change in enumerate(history, start=1)
    }
    return changes | {"former": ", ".join(reversed(former)) or "none"}


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat(timespec="seconds")
