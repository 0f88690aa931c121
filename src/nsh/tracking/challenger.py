"""A model's two aliases: `champion`, which only a person sets, and `challenger`, the best that may replace it."""

import math
from typing import TYPE_CHECKING

from nsh.tracking.recorded import Recorded, read_recorded
from nsh.tracking.store import all_pages

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

CHALLENGER = "challenger"
CHAMPION = "champion"
GATES = "gates"  # tag of a version: "passed", or what failed
PASSED = "passed"


def alias_version(client: "MlflowClient", name: str, alias: str) -> str | None:
    """The version with `alias`; None if there is none."""
    version = client.get_registered_model(name).aliases.get(alias)
    return None if version is None else str(version)


def choose_challenger(client: "MlflowClient", name: str) -> None:
    """Give the alias to the best version that passed its gates, by evaluations on one split and protocol.

    These are the champion's; without a champion the present challenger's, else the newest evaluation's. Trials do not
    count. Of equal figures, and where there are none, the newest version is taken. Without a candidate nothing changes.
    """
    results = [result for result in read_recorded(client, name) if not result.trial]
    champion, present = (alias_version(client, name, alias) for alias in (CHAMPION, CHALLENGER))
    passed = {
        str(version.version)
        for version in all_pages(client.search_model_versions, f"name = '{name}'")
        if version.tags.get(GATES) == PASSED
    }
    candidates = [result for result in _comparable(results, champion, present) if result.version in passed]
    best = max(candidates, key=_rank, default=None)
    if best is not None and best.version != present:
        client.set_registered_model_alias(name, CHALLENGER, best.version)


def _comparable(results: list[Recorded], *preferred: str | None) -> list[Recorded]:
    """The newest evaluation of each version that can be compared with the first `preferred` version that has one."""
    references = [result for version in preferred for result in results if result.version == version]
    newest: dict[str, Recorded] = {}
    for result in results:
        if result.is_comparable((references or results)[0]):
            newest.setdefault(result.version, result)
    return list(newest.values())


def _rank(result: Recorded) -> tuple[float, int]:
    return (-math.inf if result.value is None else result.value), int(result.version)
