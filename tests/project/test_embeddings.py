"""data/embed as it is read, and what is said where it is not what it should be."""

import numpy as np
import pytest

from nsh.core.metrics import cosine_map
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings, measure_ceiling
from nsh.system.files import sha256_bytes, write_json


@pytest.fixture
def embeddings(tmp_path) -> Embeddings:
    found = Embeddings(tmp_path / "embed")
    generator = np.random.default_rng(0)
    write_json(found.header_path, {"backbone": "resnet18", "image_size": 64})
    for part, count in (("train", 3), ("query", 4), ("gallery", 6)):
        np.save(found.path(part), generator.normal(size=(count, 5)).astype(np.float32))
    np.save(found.views, np.zeros((3, 2, 5), np.float16))
    found.graph.write_bytes(b"a graph")
    return found


def test_features_come_into_memory_and_all_else_as_maps(embeddings):
    features, views = embeddings.read_training()
    assert not isinstance(features, np.memmap)
    assert isinstance(views, np.memmap)
    assert (features.shape, views.shape, embeddings.read("query").shape) == ((3, 5), (3, 2, 5), (4, 5))


def test_what_they_were_made_of_is_held_against_what_is_wanted(embeddings):
    assert embeddings.differences(backbone="resnet18", image_size=32, device="cpu") == ["image_size", "device"]
    embeddings.require(backbone="resnet18", image_size=64)
    with pytest.raises(DataError, match="was made with another backbone and image_size than is here now: run `dvc re"):
        embeddings.require(backbone="vgg16", image_size=32)
    assert embeddings.has_graph(sha256_bytes(b"a graph"))
    assert not embeddings.has_graph(sha256_bytes(b"another"))


@pytest.mark.parametrize("name", ["embed.json", "views.npy", "query.npy"])
def test_what_is_missing_is_named_with_the_command_that_makes_it(embeddings, name):
    (embeddings.folder / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is not here: run `dvc repro embed` first"):
        (embeddings.header, embeddings.read_training(), embeddings.read("query"))


def test_the_ceiling_is_that_of_the_cosine_to_six_decimals_and_nothing_without_labels(embeddings):
    labels = {"query": np.eye(4, 3, dtype=bool), "gallery": np.eye(6, 3, dtype=bool)}
    labels["query"][3], labels["gallery"][3:] = True, np.eye(3, dtype=bool)
    arrays = [np.load(embeddings.path(part)) for part in labels]
    expected = cosine_map(*arrays, *labels.values(), k=3)
    assert measure_ceiling(embeddings, labels, k=3) == {name: round(value, 6) for name, value in expected.items()}
    assert measure_ceiling(embeddings, {"query": None, "gallery": None}, k=3) == {}
