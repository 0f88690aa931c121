"""A model's champions: promotion through the gate, rollback, and their record.

A version has a tag for every time that it became champion: by whom, when and why. The tags of all versions together are
the model's history, from which `rollback` knows the former champions.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nsh.errors import TrackingError
from nsh.tracking.challenger import CHALLENGER, CHAMPION, GATES, PASSED, alias_version, choose_challenger
from nsh.tracking.gate import Judgement, judge
from nsh.tracking.lineage import origin_tags
from nsh.tracking.registry import find_version
from nsh.tracking.store import all_pages, existing_client, plain_errors

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

RECORD = "champion/"  # begin of the tags' keys; a number of the model follows, from 1
ROLLED_BACK = "rolled back"


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """One change of a model's champion.

    Attributes:
        name: of the model.
        version: the champion since then.
        before: the former one; None if there was none.
        gate: what the comparison of the two said, or `ROLLED_BACK`.
        reason: why it was promoted whatever the gate says, in the user's words; "" if none was given.
        by: the user.
        at: UTC, ISO 8601; "" if nothing changed.
    """

    name: str
    version: str
    before: str | None
    gate: str
    reason: str = ""
    by: str = ""
    at: str = ""


def promote(folder: Path, model: str, *, force: str = "") -> Promotion:
    """Make a version its model's champion: `name` (its challenger), `name/version` or `name@alias`.

    Args:
        folder: the project's.
        model: the version.
        force: a reason to promote a version that the comparison with the champion refuses. It is kept.

    Raises:
        TrackingError: there is no such model, version or alias, the version failed its gates, or it is refused.
    """
    client, uri = existing_client(folder)
    with plain_errors(uri):
        version = find_version(client, model, default=(CHALLENGER,))
        name, number = str(version.name), str(version.version)
        _require_gates(version)
        before = alias_version(client, name, CHAMPION)
        if before == number:
            return Promotion(name=name, version=number, before=before, gate="champion already")
        judgement = judge(client, name, number, champion=before)
        if not judgement.accepted and not force.strip():
            raise _refusal(name, number, judgement)
        change = Promotion(name=name, version=number, before=before, gate=judgement.reason, reason=force.strip())
        return _appoint(client, change)


def rollback(folder: Path, model: str) -> Promotion:
    """Make the former champion of a model its champion again; called twice, the one before that.

    A champion that was rolled back is no former champion, until it is promoted again. Deleted versions are passed over.

    Raises:
        TrackingError: there is no such model, or no former champion.
    """
    client, uri = existing_client(folder)
    name = model.removeprefix("models:/")
    with plain_errors(uri):
        present = str(find_version(client, f"{name}@{CHAMPION}").version)
        former = former_champions(client, name)
        if not former:
            raise TrackingError(
                f"{name} has no champion before version {present}: "
                f"`nsh registry promote {name}/<version>` names another"
            )
        return _appoint(client, Promotion(name=name, version=former[-1], before=present, gate=ROLLED_BACK))


def read_history(client: "MlflowClient", name: str) -> list[Promotion]:
    """The changes of the champion of `name` that were recorded, oldest first."""
    return [change for _, change in sorted(_read_records(client, name).items())]


def _read_records(client: "MlflowClient", name: str) -> dict[int, Promotion]:
    return {
        int(key.removeprefix(RECORD)): Promotion(**json.loads(value))
        for version in all_pages(client.search_model_versions, f"name = '{name}'")
        for key, value in version.tags.items()
        if key.startswith(RECORD)
    }


def former_champions(client: "MlflowClient", name: str) -> list[str]:
    """The versions that `rollback` goes back to one after the other, the next one last."""
    present = alias_version(client, name, CHAMPION)
    there = {str(version.version) for version in all_pages(client.search_model_versions, f"name = '{name}'")}
    line = [version for version in _line(read_history(client, name)) if version in there]
    while line and line[-1] == present:
        line.pop()
    return line


def _line(history: Sequence[Promotion]) -> list[str]:
    """The champions that have not been rolled back, oldest first."""
    line: list[str] = []
    for change in history:
        if change.before is not None and line[-1:] != [change.before]:
            line.append(change.before)  # its promotion was not recorded
        if change.gate == ROLLED_BACK:
            while line and line[-1] != change.version:
                line.pop()
        else:
            line.append(change.version)
    return line


def _require_gates(version: "ModelVersion") -> None:
    gates = version.tags.get(GATES, "never judged")
    if gates != PASSED:
        raise TrackingError(
            f"{version.name}/{version.version} did not pass its gates ({gates}): "
            "`nsh registry list` shows those that did"
        )


def _refusal(name: str, version: str, judgement: Judgement) -> TrackingError:
    return TrackingError(
        f"{name}/{version} is not promoted: {judgement.reason}. `nsh registry list` shows what was measured alike; "
        f"`nsh registry promote {name}/{version} --force '<reason>'` promotes it and keeps your reason"
    )


def _appoint(client: "MlflowClient", change: Promotion) -> Promotion:
    """Make the change, and record who made it and when; the challenger follows the new champion's split."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = replace(change, by=origin_tags().get("mlflow.user", "not known"), at=now)
    number = max(_read_records(client, made.name), default=0) + 1
    client.set_registered_model_alias(made.name, CHAMPION, made.version)
    client.set_model_version_tag(made.name, made.version, f"{RECORD}{number:04}", json.dumps(asdict(made)))
    choose_challenger(client, made.name)
    return made
