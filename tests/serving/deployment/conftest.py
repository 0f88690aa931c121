"""Deployments of small encoders and thirty images, each of the test's own."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from PIL import Image
from tests.encoders import write_encoder

from nsh.serving.bulk import encode_files
from nsh.serving.deployment.deploy import Conditions, Deployer
from nsh.serving.deployment.folder import Deployment
from nsh.serving.deployment.items import ItemEncoder
from nsh.serving.deployment.places import ImagePlaces
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index


@pytest.fixture(scope="session")
def turned_path(encoder_path, tmp_path_factory) -> Path:
    """An encoder whose codes are the golden one's with their bits in reverse order: the same neighbours."""
    path = tmp_path_factory.mktemp("turned") / "encoder.onnx"
    return write_encoder(path, encoder_path, lambda weights, biases: (weights[::-1], biases[::-1]))


@pytest.fixture(scope="session")
def collapsed_path(encoder_path, tmp_path_factory) -> Path:
    """An encoder that gives every image the same code."""
    path = tmp_path_factory.mktemp("collapsed") / "encoder.onnx"
    return write_encoder(path, encoder_path, lambda weights, biases: (0 * weights, biases))


@pytest.fixture(scope="session")
def first_deployment(photographs, encoder_path, tmp_path_factory) -> Path:
    """Thirty images, photos/00.png to 29.png, and their deployment with the golden encoder."""
    root = tmp_path_factory.mktemp("first")
    (root / "photos").mkdir()
    for number in range(30):
        Image.fromarray(photographs[number]).save(root / f"photos/{number:02d}.png")
    deployment = Deployment(root / "deployment")
    with deployment.changing():
        make_deployer(deployment, root / "photos", encoder_path).deploy()
    return root


def make_deployer(
    deployment: Deployment, photos: Path, model: Path, *, encode_images=encode_files, **conditions: object
) -> Deployer:
    places = ImagePlaces.keep(deployment.folder, [str(photos)], root=None, exclude=())
    items = ItemEncoder(Encoder(model, threads=1), places.find(), encode_images=encode_images)
    return Deployer(deployment=deployment, items=items, conditions=Conditions(**conditions))


@pytest.fixture
def photos(first_deployment, tmp_path) -> Path:
    return shutil.copytree(first_deployment / "photos", tmp_path / "photos")


@pytest.fixture
def deployment(first_deployment, photos, tmp_path) -> Deployment:
    """A deployment of the golden encoder and of `photos`."""
    folder = shutil.copytree(first_deployment / "deployment", tmp_path / "deployment", symlinks=True)
    ImagePlaces.keep(folder, [str(photos)], root=None, exclude=())
    return Deployment(folder)


@pytest.fixture
def deployer(deployment, photos) -> Callable[..., Deployer]:
    """A function that gives a deployer of an encoder file; `encode_images` may do something besides."""
    return partial(make_deployer, deployment, photos)


@pytest.fixture
def new_deployment(photos, tmp_path) -> tuple[Deployment, Callable[..., Deployer]]:
    """A deployment without a release, and its deployers."""
    deployment = Deployment(tmp_path / "new")
    return deployment, partial(make_deployer, deployment, photos)


@pytest.fixture
def deploy(deployment, deployer) -> Callable[..., object]:
    """A function that deploys an encoder file."""

    def run(model: Path, **keywords: object) -> object:
        with deployment.changing():
            return deployer(model, **keywords).deploy()

    return run


def describe(index_folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """The code, in hexadecimal, and the metadata of every item."""
    batches = Index.open(index_folder, readonly=True).batches()
    return {
        name: (code.tobytes().hex(), metadata)
        for batch in batches
        for name, code, metadata in zip(batch.ids, batch.codes, batch.metadata, strict=True)
    }


@pytest.fixture(scope="session")
def codes_of() -> Callable[[Path, Path], dict[str, str]]:
    """A function that encodes all images of a folder, one by one."""

    def encode(model: Path, photos: Path) -> dict[str, str]:
        encoder = Encoder(model, threads=1)
        return {path.name: encoder.encode([path])[0].tobytes().hex() for path in sorted(photos.glob("*.png"))}

    return encode


@pytest.fixture(scope="session")
def items_of() -> Callable[[Path], dict[str, tuple[str, dict[str, str]]]]:
    return describe
