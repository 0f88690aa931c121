"""The evaluations of a model's versions, as MLflow holds them: split, protocol and figure of each.

A version may have several, for example with another k. A run names the version that it evaluated in a tag. Knows
nothing of the files of a project.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nsh.tracking.store import all_pages

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

VERSION = "model_version"  # tags of a run; the first is "name/version"
SPLIT = "split_sha256"
PROTOCOL = "protocol_sha256"
TRIAL = "trial"
FIGURES = (r"mAP_at_\d+", r"estimated_mAP_at_\d+")  # the second needs no labels


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One evaluation of a version.

    Attributes:
        name: of the registered model.
        version: its number.
        run_id: the run that holds figures, curves and average precisions.
        split_sha256: of the split; "" if not known.
        protocol: digest of how the figures were measured; "" in runs of earlier versions of nsh.
        counts: images by part of the split; empty if not known.
        figure: name of the figure that versions are compared by; "" without labels and estimate.
        value: of the figure; None without one.
        trial: whether its parameters were marked as a trial.
        backbone: the block of params.yaml as text; an estimate holds for one backbone only.
    """

    name: str
    version: str
    run_id: str
    split_sha256: str
    protocol: str
    counts: Mapping[str, int]
    figure: str
    value: float | None
    trial: bool
    backbone: str

    def is_comparable(self, other: "Recorded") -> bool:
        """Whether both have one split, one figure with one k, no different protocol, and estimates one backbone."""
        known = {result.protocol for result in (self, other)} - {""}
        return bool(self.split_sha256) and self._setting == other._setting and len(known) < 2

    @property
    def _setting(self) -> tuple[str, str, str]:
        return self.split_sha256, self.figure, self.backbone * self.figure.startswith("estimated")

    @property
    def shown(self) -> str:
        """The figure, for example "0.6700 @1000"; an estimate is marked, and "-" stands for none."""
        if self.value is None:
            return "-"
        return f"{self.value:.4f} @{self.figure.rpartition('_')[2]}{' est.' * self.figure.startswith('estimated')}"

    def __str__(self) -> str:
        """For example "split ed671dce, gallery of 20000, mAP_at_1000"."""
        gallery = f"gallery of {self.counts['gallery']}" if "gallery" in self.counts else "gallery not known"
        measured = f"split {self.split_sha256[:8] or 'not known'}, {gallery}, {self.figure or 'no figure'}"
        return f"{measured}, {self.backbone}" if self.figure.startswith("estimated") else measured


def read_recorded(client: "MlflowClient", name: str = "") -> list[Recorded]:
    """The evaluations of the versions of the model `name`, or of all models, newest first."""
    runs = all_pages(
        client.search_runs,
        [experiment.experiment_id for experiment in all_pages(client.search_experiments)],
        f"tags.{VERSION} LIKE '{name or '%'}/%'",
        order_by=["attributes.start_time DESC"],
    )
    results = [_read(run) for run in runs]
    return [result for result in results if result.name == (name or result.name)]  # LIKE takes _ for any letter


def headline(metrics: Mapping[str, float]) -> str:
    """The name of the figure that encoders are compared by; "" without labels and estimate."""
    return next((name for pattern in FIGURES for name in metrics if re.fullmatch(pattern, name)), "")


def _read(run: "Run") -> Recorded:
    tags, metrics, params = run.data.tags, run.data.metrics, run.data.params
    name, _, version = tags[VERSION].rpartition("/")
    figure = headline(metrics)
    return Recorded(
        name=name,
        version=version,
        run_id=str(run.info.run_id),
        split_sha256=tags.get(SPLIT, ""),
        protocol=tags.get(PROTOCOL, ""),
        counts=_counts(run),
        figure=figure,
        value=float(metrics[figure]) if figure else None,
        trial=tags.get(TRIAL) == "true",
        backbone=", ".join(f"{key}={params[key]}" for key in sorted(params) if key.startswith("backbone.")),
    )


def _counts(run: "Run") -> dict[str, int]:
    """The numbers of images that the run's data set states."""
    inputs = run.inputs.dataset_inputs if run.inputs else []
    profile: dict[str, int] = json.loads(inputs[0].dataset.profile or "{}") if inputs else {}
    return profile
