from pathlib import Path

import pytest

from nsh.config.params import DataSet
from nsh.data import registry
from nsh.errors import ConfigError


def test_params_and_registry_know_the_same_data_sets() -> None:
    assert set(DataSet.model_fields["name"].annotation.__args__) == set(registry.NAMES)


def test_an_unknown_data_set_names_the_known(tmp_path: Path) -> None:
    message = "found 'mnist', allowed are fashion-mnist, cifar10, nuswide, coco, folder"
    with pytest.raises(ConfigError, match=message):
        registry.fetch("mnist", raw=tmp_path, root=tmp_path)
    with pytest.raises(ConfigError, match=message):
        registry.open_images("mnist", raw=tmp_path, root=tmp_path, labels="none")


def test_unknown_labels_name_the_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found 'file', allowed are folder and none"):
        registry.open_images("folder", raw=tmp_path, root=tmp_path, labels="file")
