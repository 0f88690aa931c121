"""The model registry for its users: list versions, find one, download its encoder.

It changes nothing. Knows nothing of how versions are made.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nsh.errors import TrackingError
from nsh.system.files import atomic_path, sha256_file
from nsh.tracking.challenger import CHALLENGER, CHAMPION
from nsh.tracking.moved import to_path
from nsh.tracking.packaging import ENCODER_FILE
from nsh.tracking.recorded import Recorded, read_recorded
from nsh.tracking.store import all_pages, existing_client, plain_errors

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.tracking import MlflowClient

HINTS = {
    CHAMPION: "`nsh registry promote {name}` sets it",
    CHALLENGER: "no version passed its gates that is not a trial, as `nsh registry list` shows",
}


@dataclass(frozen=True)
class EncoderVersion:
    """One version of a registered model, as `nsh registry list` shows it."""

    name: str
    version: str
    aliases: tuple[str, ...]
    tags: Mapping[str, str]
    recorded: Recorded | None  # its newest evaluation; None if its runs are gone


def list_versions(folder: Path) -> list[EncoderVersion]:
    """Every version in the store of the project in `folder`, by name, newest first.

    Raises:
        TrackingError: the store cannot be used.
    """
    client, uri = existing_client(folder)
    with plain_errors(uri):
        aliases = {model.name: model.aliases for model in all_pages(client.search_registered_models)}
        found = all_pages(client.search_model_versions)
        newest = {(result.name, result.version): result for result in reversed(read_recorded(client))}
    versions = [
        EncoderVersion(
            item.name,
            str(item.version),
            tuple(sorted(alias for alias, number in aliases[item.name].items() if str(number) == str(item.version))),
            dict(item.tags),
            newest.get((item.name, str(item.version))),
        )
        for item in found
        if "encoder_sha256" in item.tags
    ]
    return sorted(versions, key=lambda version: (version.name, -int(version.version)))


def download_encoder(model: str, *, to: Path, folder: Path = Path()) -> Path:
    """Write the encoder file of a registered version to `to`, checked against its digest.

    Args:
        model: "models:/name@alias" or "models:/name/version"; "models:/" may be left out.
        to: the file to write.
        folder: the project's folder, with the store.

    Raises:
        TrackingError: there is no such model, version or alias, or the file is not the one that was registered.
    """
    client, uri = existing_client(folder)
    with plain_errors(uri):
        version = find_version(client, model)
        return _download(version, uri=uri, to=to)


def _download(version: "ModelVersion", *, uri: str, to: Path) -> Path:
    from mlflow.artifacts import download_artifacts

    with atomic_path(to) as partial, tempfile.TemporaryDirectory() as scratch:
        source = f"{version.source}/{ENCODER_FILE}"
        if urlsplit(source).scheme == "file" and not to_path(source).exists():
            raise TrackingError(
                f"the file of {version.name}/{version.version} is not at {to_path(source)}: "
                "bring the store's folder mlartifacts back to where mlflow.db is"
            )
        found = Path(download_artifacts(artifact_uri=source, dst_path=scratch, tracking_uri=uri))
        digest = sha256_file(found)
        if digest != version.tags.get("encoder_sha256"):
            raise TrackingError(
                f"{version.name}/{version.version} holds an encoder with sha256 {digest}, "
                f"registered was {version.tags.get('encoder_sha256')}: do not use it, register the encoder again"
            )
        partial.write_bytes(found.read_bytes())
    return to


def find_version(client: "MlflowClient", model: str, *, default: Sequence[str] = ()) -> "ModelVersion":
    """The version of a reference "name@alias" or "name/version", with or without "models:/".

    Args:
        client: of the store.
        model: the reference.
        default: aliases; a name alone means the first one that the model has.

    Raises:
        TrackingError: the reference names no version, or there is no such model, version or alias.
    """
    from mlflow.exceptions import MlflowException

    reference = model.removeprefix("models:/")
    if default and not {"@", "/"} & set(reference):
        models = {registered.name: registered for registered in all_pages(client.search_registered_models)}
        held = models[reference].aliases if reference in models else {}
        reference = f"{reference}@{next((alias for alias in default if alias in held), default[-1])}"
    name, alias, number = *reference.partition("@")[::2], ""
    if not alias:
        name, _, number = reference.partition("/")
    if not name or not (alias or number.isdecimal()):
        raise TrackingError(
            f"{reference} names no encoder: write name@alias or name/version, as `nsh registry list` does"
        )
    try:
        return client.get_model_version_by_alias(name, alias) if alias else client.get_model_version(name, number)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        raise TrackingError(_explain_missing(client, name, alias=alias, number=number)) from error


def _explain_missing(client: "MlflowClient", name: str, *, alias: str, number: str) -> str:
    models = [model.name for model in all_pages(client.search_registered_models)]
    if name not in models:
        return f"there is no registered model {name}; there are: {', '.join(models) or 'none, run `nsh track sync`'}"
    if not alias:
        return f"{name} has no version {number}: `nsh registry list` shows those it has"
    return f"{name} has no {alias}: {HINTS.get(alias, '`nsh registry list` shows the aliases').format(name=name)}"
