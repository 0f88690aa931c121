"""What several rooms test with: real photographs, and an encoder exported from a real network.

It is read in production's environment too, which has neither torch nor onnx (`make test-serve`): there the encoder is
golden/encoder.onnx, and what needs torch is skipped.
"""

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_sample_images

from nsh.core.contract import EncoderContract

if TYPE_CHECKING:
    import onnx
    from torch import nn

# An example that is slow on a busy machine is no fault; pytest-timeout stops what hangs.
settings.register_profile("nsh", deadline=None)
settings.load_profile("nsh")

# A shell's background job inherits Ctrl-C ignored, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

SIZE = 64
BITS = 12  # no multiple of 8: the padding is seen everywhere
GOLDEN = Path(__file__).parent / "golden" / "encoder.onnx"
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
)


class Networks(NamedTuple):
    backbone: "nn.Module"
    head: "nn.Module"


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """No test finds or leaves an MLflow store that it did not choose: `mlflow.set_tracking_uri` writes a variable."""
    before = dict(os.environ)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_RUN_ID"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def photographs() -> np.ndarray:
    return cut_photographs()


def cut_photographs() -> np.ndarray:
    """300 crops, uint8 [300, 64, 64, 3], of the two photographs that scikit-learn ships (CC BY 2.0)."""
    generator = np.random.default_rng(0)
    pictures = load_sample_images().images
    crops = []
    for number in range(300):
        picture = pictures[number % 2]
        top, left = (generator.integers(0, length - SIZE) for length in picture.shape[:2])
        crops.append(picture[top : top + SIZE, left : left + SIZE])
    return np.stack(crops)


@pytest.fixture(scope="session")
def trained(photographs: np.ndarray) -> Networks:
    """MobileNetV2 with random weights, its normalisation fitted to the photographs, and a head with balanced bits."""
    torch = pytest.importorskip("torch")
    from torch import nn

    from nsh.backbones import networks
    from nsh.export import graph

    backbone = networks.build("mobilenet_v2", weights=None, image_size=SIZE)
    layers = [layer for layer in backbone.modules() if isinstance(layer, nn.BatchNorm2d)]
    whole = graph.ImageToEmbedding(backbone)
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
    return Networks(backbone, head.eval())


@pytest.fixture(scope="session")
def contract() -> EncoderContract:
    return CONTRACT


@pytest.fixture(scope="session")
def backbone_model(trained: Networks) -> "onnx.ModelProto":
    from nsh.export import graph

    return graph.export_backbone(trained.backbone, image_size=SIZE)


@pytest.fixture(scope="session")
def encoder_model(backbone_model: "onnx.ModelProto", trained: Networks, contract: EncoderContract) -> "onnx.ModelProto":
    from nsh.export import graph

    return graph.join_head(backbone_model, trained.head, contract)


@pytest.fixture(scope="session")
def encoder_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("torch") is None:
        return GOLDEN
    from nsh.export import graph

    path = tmp_path_factory.mktemp("encoder") / "encoder.onnx"
    graph.save(request.getfixturevalue("encoder_model"), path)
    return path
