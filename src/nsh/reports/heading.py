"""What a report is of, beside the pairs that were measured (`nsh.project.results`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nsh.project.results import Measured


@dataclass(frozen=True)
class Heading:
    """What the table is of."""

    data_set: str
    split: Mapping[str, Any]  # split.json
    backbone: Mapping[str, Any]  # embed.json
    k: int
    ceiling: Mapping[str, float]  # of the frozen backbone's float embedding by cosine; empty without labels
    mode: str  # train.mode: "frozen", or "finetune", where methods that learn by gradient have tuned the backbone


def best_pair(measured: Iterable[Measured], *, k: int) -> Measured:
    """The pair with the highest mAP at k, and without labels the first of the longest codes."""
    return max(measured, key=lambda item: (item.metrics.get(f"mAP_at_{k}", 0.0), item.bits))
