"""The one room that imports MLflow, and only inside its functions: runs, curves, comparison and model versions.

DVC owns files, MLflow owns what is said about them. No run id ever reaches a DVC output: a run is found by the digest
of what it made.
"""

from nsh.tracking.committed import compare_with_commit
from nsh.tracking.live import Report, training_run
from nsh.tracking.recording import Outcome, record, sync
from nsh.tracking.registration import model_name
from nsh.tracking.registry import EncoderVersion, Promotion, download_encoder, list_versions, promote
from nsh.tracking.times import stage_times

__all__ = [
    "EncoderVersion",
    "Outcome",
    "Promotion",
    "Report",
    "compare_with_commit",
    "download_encoder",
    "list_versions",
    "model_name",
    "promote",
    "record",
    "stage_times",
    "sync",
    "training_run",
]
