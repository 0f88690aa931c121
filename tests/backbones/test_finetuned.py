"""What training changed in a backbone comes back, and no more; what is no such file is refused."""

import pytest
import torch
from torch import nn

from nsh.backbones.finetuned import apply_changes, copy_state, find_changes, to_bytes
from nsh.errors import ExportError


def make_network(width=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, width, 1), nn.BatchNorm2d(width), nn.Flatten())


def change(network):
    with torch.no_grad():
        network[0].weight += 1


def test_the_changes_alone_are_written_and_come_back(tmp_path):
    network = make_network()
    before = copy_state(network)
    change(network)
    changes = find_changes(network, before)
    assert list(changes) == ["0.weight"]
    (tmp_path / "backbone.pt").write_bytes(to_bytes(changes))
    fresh = make_network()
    assert apply_changes(tmp_path / "backbone.pt", fresh)
    assert all(torch.equal(value, fresh.state_dict()[name]) for name, value in network.state_dict().items())


def test_a_frozen_backbone_is_an_empty_file_that_changes_nothing(tmp_path):
    network = make_network()
    (tmp_path / "backbone.pt").write_bytes(to_bytes(find_changes(network, copy_state(network))))
    assert not apply_changes(tmp_path / "backbone.pt", network)
    assert find_changes(network, copy_state(make_network())) == {}


def test_equal_changes_are_equal_bytes():
    contents = []
    for _ in range(2):
        network = make_network()
        before = copy_state(network)
        change(network)
        contents.append(to_bytes(find_changes(network, before)))
    assert contents[0] == contents[1]


def test_a_missing_file_says_what_to_run(tmp_path):
    with pytest.raises(ExportError, match=r"nsh-8/backbone.pt is not here: train again, `dvc repro -f train@nsh-8`"):
        apply_changes(tmp_path / "nsh-8" / "backbone.pt", make_network())


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_a_garbled_file_is_refused(tmp_path, content):
    (tmp_path / "backbone.pt").write_bytes(content)
    with pytest.raises(ExportError, match="holds no weights of this backbone"):
        apply_changes(tmp_path / "backbone.pt", make_network())


def test_weights_of_another_network_are_refused(tmp_path):
    path = tmp_path / "backbone.pt"
    path.write_bytes(to_bytes({"elsewhere.weight": torch.ones(1)}))
    with pytest.raises(ExportError, match=r"another backbone, e.g. elsewhere.weight"):
        apply_changes(path, make_network())
    path.write_bytes(to_bytes({"0.weight": torch.ones(5, 3, 1, 1)}))
    with pytest.raises(ExportError, match="size mismatch"):
        apply_changes(path, make_network())
