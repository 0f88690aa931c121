import numpy as np
import pytest

from nsh.core.errors import DataError, TrainingError
from nsh.training.embedded import load_training_data


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    np.save(tmp_path / "train.npy", generator.normal(size=(6, 4)).astype(np.float32))
    np.save(tmp_path / "views.npy", generator.normal(size=(6, 3, 4)).astype(np.float16))
    return tmp_path


def test_features_and_views_are_what_was_written(folder):
    data = load_training_data(folder)
    assert np.array_equal(data.features, np.load(folder / "train.npy"))
    assert np.array_equal(data.views, np.load(folder / "views.npy"))


def test_views_stay_on_disk(folder):
    assert isinstance(load_training_data(folder).views, np.memmap)


@pytest.mark.parametrize("name", ["train.npy", "views.npy"])
@pytest.mark.parametrize("content", [None, b"", b"no array at all"])
def test_a_missing_or_broken_file(folder, name, content):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(DataError, match="holds no embedded training images"):
        load_training_data(folder)


def test_arrays_that_do_not_belong_together(folder):
    np.save(folder / "train.npy", np.zeros((5, 4), dtype=np.float32))
    with pytest.raises(TrainingError, match="do not belong together"):
        load_training_data(folder)
