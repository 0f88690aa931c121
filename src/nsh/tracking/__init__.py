"""MLflow runs and the model registry: the only package that imports MLflow, and only inside functions.

DVC owns files; MLflow owns curves, comparison and model versions. No DVC output holds a run id: a run is found by the
digest of its artefact.
"""

from nsh.tracking.champions import Promotion, promote, rollback
from nsh.tracking.committed import compare_with_commit
from nsh.tracking.description import describe
from nsh.tracking.live import Report, training_run
from nsh.tracking.pull_request import HEADING, compare_with_revision
from nsh.tracking.recording import Outcome, record, sync
from nsh.tracking.registration import model_name
from nsh.tracking.registry import EncoderVersion, download_encoder, list_versions
from nsh.tracking.times import stage_times
from nsh.tracking.tuning import Tried, tuning_run

__all__ = [
    "HEADING",
    "EncoderVersion",
    "Outcome",
    "Promotion",
    "Report",
    "Tried",
    "compare_with_commit",
    "compare_with_revision",
    "describe",
    "download_encoder",
    "list_versions",
    "model_name",
    "promote",
    "record",
    "rollback",
    "stage_times",
    "sync",
    "training_run",
    "tuning_run",
]
