"""Registers encoders as versions of a model.

There is one registered model for each data set, method and code length, e.g. `fashion-mnist-nsh-32`, because versions
of a model replace each other in production.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nsh.system.files import sha256_file
from nsh.tracking.challenger import GATES, PASSED
from nsh.tracking.packaging import package
from nsh.tracking.results import Results
from nsh.tracking.store import Store, all_pages

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

MIN_BIT_AGREEMENT = 0.999  # of torch and onnxruntime; the export stage and the registry refuse less


def model_name(data_set: str, *, method: str, bits: int) -> str:
    """Name of the registered model of a pair's encoders."""
    return f"{data_set}-{method}-{bits}"


def failed_gates(results: Results) -> list[str]:
    """The reasons why the encoder may not be challenger; empty if it may."""
    failed = [f"{name} is not finite" for name in results.nonfinite]
    agreement = float(results.parity["bit_agreement"])
    if not agreement >= MIN_BIT_AGREEMENT:
        failed.append(f"bits agree with torch by {agreement:.4%}, at least {MIN_BIT_AGREEMENT:.1%} are asked for")
    past_limits: list[str] = results.parity.get("quantisation", {}).get("past_limits", [])  # of fp16 and int8
    return failed + past_limits


def register(store: Store, run_id: str, results: Results, *, tags: Mapping[str, str]) -> str:
    """Find or make the version with this encoder's identity.

    Returns:
        "name/version".
    """
    name = model_name(results.split["data_set"], method=results.pair.method, bits=results.pair.bits)
    _ensure_model(store.client, name)
    found = all_pages(
        store.client.search_model_versions, f"name = '{name}' and tags.encoder_identity = '{results.encoder_identity}'"
    )
    tags = _version_tags(results) | {tag: tags[tag] for tag in ("git_commit", "dvc_lock_md5") if tag in tags}
    version = found[0] if found else _make_version(store, run_id, results, name=name, tags=tags)
    for tag, value in tags.items() if found else ():
        store.client.set_model_version_tag(name, version.version, tag, value)
    return f"{name}/{version.version}"


def _ensure_model(client: "MlflowClient", name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name, description="Image encoder to binary codes, made by the NSH pipeline.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _make_version(store: Store, run_id: str, results: Results, *, name: str, tags: Mapping[str, str]) -> "ModelVersion":
    """Upload the encoder as a model of the run, and make it the next version of `name`.

    The tag `encoder_sha256` is the uploaded file's, for downloads. A later export with the same identity may be another
    file: the version keeps its own.
    """
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    file = {"encoder_sha256": sha256_file(results.encoder)}
    model = store.client.create_logged_model(store.experiment_id, name="encoder", source_run_id=run_id)
    with tempfile.TemporaryDirectory() as scratch:
        store.client.log_model_artifacts(model.model_id, str(package(results.encoder, into=Path(scratch) / "model")))
    store.client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    store.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
    return store.client.create_model_version(
        name, source=model.artifact_location, run_id=run_id, model_id=model.model_id, tags=dict(tags) | file
    )


def _version_tags(results: Results) -> dict[str, str]:
    figures = {name: f"{value:.6g}" for name, value in results.metrics.items() if name.startswith("mAP")}
    return figures | {
        "method": results.pair.method,
        "bits": str(results.pair.bits),
        "encoder_identity": results.encoder_identity,
        "head_sha256": results.head_sha256,
        "split_sha256": str(results.split["sha256"]),
        "bit_agreement": str(results.parity["bit_agreement"]),
        GATES: "; ".join(failed_gates(results)) or PASSED,
    }
