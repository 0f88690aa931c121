from pathlib import Path

import pytest

from nsh.config.declarations import declared_data_sets
from nsh.config.params import DataSet
from nsh.data import registry
from nsh.errors import ConfigError


def test_params_and_registry_know_the_same_data_sets() -> None:
    assert declared_data_sets() == list(registry.DATA_SETS)


def test_the_choice_of_params_is_opened(tmp_path: Path) -> None:
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/1.png").write_bytes(b"not looked at")
    registry.fetch("folder", raw=tmp_path, root=tmp_path / "root", say=lambda line: None)
    for labels, classes in (("folder", ("a",)), ("none", None)):
        choice = DataSet(name="folder", root=tmp_path / "root", exclude=[], labels=labels)
        images = registry.open_chosen(choice, raw=tmp_path)
        assert (images.name, images.ids, images.classes) == ("folder", ["a/1.png"], classes)


def test_an_unknown_data_set_names_the_known(tmp_path: Path) -> None:
    message = "found 'mnist', allowed are fashion-mnist, cifar10, nuswide, coco, folder"
    with pytest.raises(ConfigError, match=message):
        registry.fetch("mnist", raw=tmp_path, root=tmp_path)
    with pytest.raises(ConfigError, match=message):
        registry.open_images("mnist", raw=tmp_path, root=tmp_path, labels="none")


def test_unknown_labels_name_the_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="found 'file', allowed are folder and none"):
        registry.open_images("folder", raw=tmp_path, root=tmp_path, labels="file")
