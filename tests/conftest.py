"""Fixtures of several packages: real photographs, and an encoder exported from a real network.

It is read in production's environment too, which has neither torch nor onnx (`make test-serve`).
"""

import functools
import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from tests.slow import is_slow, place

from nsh.core.contract import EncoderContract
from nsh.system.kernels import fix_kernels

if TYPE_CHECKING:
    import onnx
    from torch import nn

    from nsh.objectives.base import TrainingData

fix_kernels()  # before any test uses torch: what tests compute is the same on every processor

# An example that is slow on a busy machine is no fault; pytest-timeout stops what hangs. The examples are the same ones
# in every run: what passes here passes elsewhere, and `--hypothesis-profile=nsh-random` draws others.
settings.register_profile("nsh-random", deadline=None)
settings.register_profile("nsh", settings.get_profile("nsh-random"), derandomize=True)
settings.load_profile("nsh")

# A shell's background job inherits Ctrl-C ignored, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

SIZE = 64
BITS = 12  # no multiple of 8: the padding is seen everywhere
CONTRACT = EncoderContract(
    bits=BITS,
    image_size=SIZE,
    resample="bilinear",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    method="nsh",
    backbone="mobilenet_v2",
    weights="none",
    weights_sha256="",
    backbone_sha256="b" * 64,
    data_set="photographs",
    split_sha256="c" * 64,
    source_sha256="d" * 64,
    libraries="torch 2.9.1",
)


class Networks(NamedTuple):
    backbone: "nn.Module"
    head: "nn.Module"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What collecting imports stays to the end: Python's collector of cycles need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")
    items.sort(key=lambda item: place(item.path))


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """What a fixture makes does not depend on what ran before it, nor on the test that asked for it first."""
    _begin_anew()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """What a test computes is the same in every order of the tests."""
    _begin_anew()


def _begin_anew() -> None:
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:  # its generator starts from one seed by itself
        sys.modules["torch"].default_generator.manual_seed(0)
        sys.modules["torch"].set_num_threads(1)  # stages that ran in this process have set theirs; sums differ by it


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """No test finds or leaves an MLflow store that it did not choose: `mlflow.set_tracking_uri` writes a variable."""
    before = dict(os.environ)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def _operators_read_once() -> Iterator[None]:
    """Exports share torch's table of ONNX operators, whose five hundred sources it would parse anew for each."""
    if "nsh.export.graph" not in sys.modules:
        yield
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(scope="session")
def draw_clusters() -> "Callable[..., TrainingData]":
    """A function that draws features around five centres, as a rectified network has them, and three noisy views."""
    from nsh.objectives.base import TrainingData

    def draw(count: int = 60, dim: int = 12, seed: int = 0) -> TrainingData:
        generator = np.random.default_rng(seed)
        centres = 2 * generator.normal(size=(5, dim))
        features = np.abs(centres[np.arange(count) % 5] + generator.normal(size=(count, dim)))
        views = features[:, None] + 0.2 * generator.normal(size=(count, 3, dim))
        return TrainingData(features.astype(np.float32), views.astype(np.float16))

    return draw


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    """A function that mounts as `mount` does, until the test is over: `mount("-t", "tmpfs", "none", folder)`."""
    mounted: list[Path] = []

    def mount(*arguments: str | Path) -> None:
        folder = Path(arguments[-1])
        command = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
        if command.returncode:
            pytest.skip(f"this test needs the right to mount: {command.stderr.strip()}")
        mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def mount_read_only(mount: Callable[..., None]) -> Callable[[Path, Path], None]:
    """A function that shows a folder at another place, where it cannot be written to, not even by root."""

    def mount_read_only(folder: Path, place: Path) -> None:
        place.mkdir(exist_ok=True)
        mount("--bind", folder, place)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)

    return mount_read_only


@pytest.fixture(scope="session")
def photographs() -> np.ndarray:
    return cut_photographs()


def cut_photographs() -> np.ndarray:
    """300 crops, uint8 [300, 64, 64, 3], of the two photographs that scikit-learn ships (CC BY 2.0)."""
    from sklearn.datasets import load_sample_images  # a third of the time that pytest takes to start

    generator = np.random.default_rng(0)
    pictures = load_sample_images().images
    crops = []
    for number in range(300):
        picture = pictures[number % 2]
        top, left = (generator.integers(0, length - SIZE) for length in picture.shape[:2])
        crops.append(picture[top : top + SIZE, left : left + SIZE])
    return np.stack(crops)


@pytest.fixture(scope="session")
def trained(made_once: "MadeOnce", photographs: np.ndarray) -> Networks:
    """MobileNetV2 with random weights, its normalisation fitted to the photographs, and a head with balanced bits.

    One worker makes it for all: fitting through 52 layers turns another order of a sum into another network.
    """
    import torch
    from torch import nn

    from nsh.backbones import networks

    folder = made_once("networks", lambda folder: _fit_networks(folder, photographs))
    backbone = networks.build("mobilenet_v2", weights=folder / "backbone.pt", image_size=SIZE)
    head = nn.Linear(backbone.dim, BITS)
    head.load_state_dict(torch.load(folder / "head.pt", weights_only=True))
    return Networks(backbone, head.eval())


def _fit_networks(folder: Path, photographs: np.ndarray) -> None:
    import torch
    from torch import nn

    from nsh.backbones import networks
    from nsh.backbones.pixels import ImageToEmbedding

    backbone = networks.build("mobilenet_v2", weights=None, image_size=SIZE)
    layers = [layer for layer in backbone.modules() if isinstance(layer, nn.BatchNorm2d)]
    whole = ImageToEmbedding(backbone)
    images = torch.from_numpy(photographs[:64])
    for layer in layers:
        layer.momentum = None
        layer.train()
    with torch.no_grad():
        whole(images)
        for layer in layers:
            layer.eval()
        embeddings = whole(images)
    head = nn.Linear(embeddings.shape[1], BITS)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        head.weight.copy_(torch.randn(head.weight.shape, generator=generator) / 10)
        head.bias.copy_(-(embeddings @ head.weight.T).mean(dim=0))
    folder.mkdir()
    torch.save(backbone.network.state_dict(), folder / "backbone.pt")
    torch.save(head.state_dict(), folder / "head.pt")


@pytest.fixture(scope="session")
def contract() -> EncoderContract:
    return CONTRACT


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> "MadeOnce":
    """A function `(name, make)` that gives the file or folder `name`, made by `make(path)` in one of the workers."""
    from filelock import FileLock

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"

    def give(name: str, make: Callable[[Path], None]) -> Path:
        path, partial = folder / name, folder / "partial" / name
        partial.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{name}.lock"):
            if not path.exists():
                make(partial)
                partial.rename(path)
        return path

    return give


MadeOnce = Callable[[str, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def mlflow_database(made_once: MadeOnce) -> Path:
    """An empty MLflow database, to be copied: MLflow takes ten seconds to make one."""
    from nsh.tracking.store import open_client

    return made_once("mlflow.db", lambda path: open_client(f"sqlite:///{path}"))


@pytest.fixture(scope="session")
def backbone_model(made_once: MadeOnce, request: pytest.FixtureRequest) -> "onnx.ModelProto":
    import onnx

    from nsh.export import graph

    def make(path: Path) -> None:
        graph.save(graph.export_backbone(request.getfixturevalue("trained").backbone, image_size=SIZE), path)

    return onnx.load(made_once("backbone.onnx", make))


@pytest.fixture(scope="session")
def encoder_path(made_once: MadeOnce, request: pytest.FixtureRequest) -> Path:
    from nsh.export import graph

    def make(path: Path) -> None:
        backbone, head = request.getfixturevalue("backbone_model"), request.getfixturevalue("trained").head
        path.mkdir()
        graph.save(graph.join_head(backbone, head, CONTRACT), path / "encoder.onnx")

    return made_once("encoder", make) / "encoder.onnx"


@pytest.fixture(scope="session")
def encoder_model(encoder_path: Path) -> "onnx.ModelProto":
    import onnx

    return onnx.load(encoder_path)
