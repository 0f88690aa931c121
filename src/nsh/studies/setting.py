"""Settings: what trials are measured on, made by the pipeline's own stages in a folder of their own.

.cache/studies/<setting>/ is a project without DVC: params.yaml, data/, and made.json, which says what data/ was made
with. It is made again when parameters, code or images have changed. Knows no method.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nsh.config import Params, change
from nsh.errors import ConfigError, DataError
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.reports import paper
from nsh.system.code import code_digest
from nsh.system.files import read_json, sha256_file, write_json, write_text

STUDIES, PIPELINE = Path(".cache/studies"), Path("pipeline")
STAGES = ("download", "split", "embed")
_SPLIT, _EMBED = Project().split, Embeddings(Project().embed)
OUTPUTS = [
    path.as_posix()
    for path in (
        *(_SPLIT / f"{part}.parquet" for part in ("train", "query", "gallery")),
        Project().split_header,
        *(_EMBED.path("train"), _EMBED.views, _EMBED.path("query"), _EMBED.path("gallery"), _EMBED.header_path),
    )
]
_EMBEDDED = {
    "backbone.resample": "bilinear",
    "embed.views": 8,
    "embed.seed": 0,
    "compute.device": "cpu",  # the encoder starts from embeddings that the CPU made, or needs minutes a trial
}
_WHOLE = {"dataset.labels": "folder", "split.gallery": None, "split.query": None, "split.seed": 0, **_EMBEDDED}
_CIFAR10 = {"dataset.name": "cifar10", "split.train": 10_000, **_WHOLE}
_FASHION_MNIST = {"dataset.name": "fashion-mnist", "split.train": 10_000, **_WHOLE}
_LITE2 = {"backbone.name": "tf_efficientnet_lite2"}
_MOBILENET = {"backbone.name": "mobilenet_v2"}
SETTINGS: dict[str, dict[str, Any]] = {
    "cifar10": {**_CIFAR10, **_LITE2, "backbone.image_size": 160},
    "fashion-mnist": {**_FASHION_MNIST, **_LITE2, "backbone.image_size": 96},
    "cifar10-mobilenet_v2": {**_CIFAR10, **_MOBILENET, "backbone.image_size": 128},
    "fashion-mnist-mobilenet_v2": {**_FASHION_MNIST, **_MOBILENET, "backbone.image_size": 96, "split.train": None},
}
"""What is measured: parameters that differ from params.yaml, or must not. The default backbone, then the former one."""


def data_set_of(setting: str) -> str:
    """The data set of a setting, as params.yaml names it."""
    return str(SETTINGS[setting]["dataset.name"])


def title_of(setting: str) -> str:
    """What a setting is called in headings: its data set and its backbone."""
    data_set, changes = data_set_of(setting), SETTINGS[setting]
    shown = paper.DATA_SETS.get(data_set, data_set)
    return f"{shown}, {changes['backbone.name']} at {changes['backbone.image_size']} px"


@dataclass(frozen=True)
class Setting:
    """A setting, ready to be measured in.

    Attributes:
        name: one of `SETTINGS`.
        project: its folder, with params.yaml and data/.
        digest: of the split and the embeddings.
    """

    name: str
    project: Project
    digest: str

    @property
    def trials(self) -> Path:
        """The folder of the trials' folders."""
        return self.project.folder / "trials"


def prepare(name: str, changes: Mapping[str, Any], params: Params, *, root: Path | None) -> Setting:
    """Run download, split and embed for a setting, unless they were run for the same.

    Args:
        name: of the setting and its folder.
        changes: its parameters, one of `SETTINGS`.
        params: everything else.
        root: the user's images, as `dataset.root`; None for those of the call before, or images that the download stage
            finds without.

    Raises:
        ConfigError: `root` is no folder, or the parameters break a rule.
        DataError: a stage failed; it has said why.
    """
    if not PIPELINE.is_dir():
        raise ConfigError(f"{PIPELINE}/ is not here: run the command in the project's folder")
    if root is not None and not root.is_dir():
        raise ConfigError(f"{root} is no folder: give the folder that holds the images")
    project = Project(STUDIES / name)
    written = project.folder / "params.yaml"
    place = _read_root(written) if root is None else root.resolve()
    chosen = change(params, changes if place is None else {**changes, "dataset.root": str(place)})
    write_text(written, yaml.safe_dump(chosen.model_dump(mode="json"), sort_keys=False))
    made = describe(chosen, root=root)
    if not _is_made(project.folder, made):
        (project.folder / "made.json").unlink(missing_ok=True)
        for stage in STAGES:
            _run_stage(stage, project.folder)
        # Where this call names no images, they are those of the call before: the next may name them again.
        images = None if place is None else project.folder / place
        finish(project.folder, describe(chosen, root=images if images is not None and images.is_dir() else None))
    return Setting(name, project, _digest_outputs(read_json(project.folder / "made.json")))


def _read_root(params: Path) -> Path | None:
    """Where the images lay at the call before, which trials read some of; None at the first call."""
    return Path(yaml.safe_load(params.read_text(encoding="utf-8"))["dataset"]["root"]) if params.is_file() else None


def describe(params: Params, *, root: Path | None) -> dict[str, Any]:
    """What split and embeddings depend on; `root` counts by what it holds, not by where it is."""
    values = params.model_dump(mode="json")
    embed = {name: values["embed"][name] for name in ("views", "seed")}
    data_set = {name: values["dataset"][name] for name in ("name", "exclude", "labels")}
    return {
        "params": {"dataset": data_set, "split": values["split"], "backbone": values["backbone"], "embed": embed},
        "code_sha256": code_digest(PIPELINE / f"{stage}.py" for stage in STAGES),
        "images": None if root is None else _list_images(root),
    }


def finish(folder: Path, made: Mapping[str, Any]) -> None:
    """Note what the outputs in `folder` were made with, and their digests."""
    write_json(folder / "made.json", {**made, "outputs": {name: sha256_file(folder / name) for name in OUTPUTS}})


def _is_made(folder: Path, wanted: Mapping[str, Any]) -> bool:
    """Without a root, whatever images are there are the right ones."""
    try:
        made = read_json(folder / "made.json")
    except FileNotFoundError:
        return False
    keys = [key for key in wanted if key != "images" or wanted[key] is not None]
    return all(made[key] == wanted[key] for key in keys) and all((folder / name).is_file() for name in OUTPUTS)


def _digest_outputs(made: Mapping[str, Any]) -> str:
    return hashlib.sha256("\n".join(f"{name} {made['outputs'][name]}" for name in OUTPUTS).encode()).hexdigest()


def _list_images(root: Path) -> str:
    """SHA-256 over the names and contents of all files in `root`."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()} {sha256_file(path)}\n".encode())
    return digest.hexdigest()


def _run_stage(stage: str, folder: Path) -> None:
    """Run one stage with `folder` as its project; it shows its own progress, and a cut one goes on."""
    print(f"{stage}, in {folder}", flush=True)
    if subprocess.run(
        [sys.executable, (PIPELINE / f"{stage}.py").resolve()], cwd=folder, env=_environment(), check=False
    ).returncode:
        raise DataError(f"the stage {stage} of the setting {folder.name} failed, see above")


def _environment() -> dict[str, str]:
    """This process's, with a relative module path made absolute: the stage runs in another folder."""
    paths = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
