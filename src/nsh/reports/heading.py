"""The data set, split and backbone of a report."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nsh.project.results import Measured


@dataclass(frozen=True)
class Heading:
    """What the report's figures were measured on."""

    data_set: str
    split: Mapping[str, Any]  # split.json
    backbone: Mapping[str, Any]  # embed.json
    k: int
    ceiling: Mapping[str, float]  # of the frozen backbone's float embedding by cosine; empty without labels
    mode: str  # train.mode: "frozen", or "finetune" if methods that learn by gradient have trained the backbone


def best_pair(measured: Iterable[Measured], *, k: int) -> Measured:
    """The pair with the highest mAP at k; without labels, of the longest codes that with the highest estimate of it."""
    names = f"mAP_at_{k}", f"estimated_mAP_at_{k}"
    return max(measured, key=lambda item: (item.metrics.get(names[0], 0.0), item.bits, item.metrics.get(names[1], 0.0)))
