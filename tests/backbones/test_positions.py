import torch
from torch import nn

from nsh.backbones import networks
from nsh.backbones.positions import resample_positions


class Torchvisions(nn.Module):
    """A network with position embeddings of 2 x 2 patches and a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, 1 + 2 * 2, 8))


def test_torchvisions_are_resampled_to_the_image():
    old = torch.randn(1, 1 + 4 * 4, 8, generator=torch.Generator().manual_seed(0))
    key = "encoder.pos_embedding"
    found = resample_positions({key: old, "head": old}, Torchvisions())
    grid = old[:, 1:].reshape(1, 4, 4, 8).permute(0, 3, 1, 2)
    expected = nn.functional.interpolate(grid, size=2, mode="bicubic", align_corners=True)
    assert torch.equal(found[key][:, 0], old[:, 0])
    assert torch.allclose(found[key][:, 1:], expected.permute(0, 2, 3, 1).reshape(1, 4, 8), atol=1e-6)
    assert found["head"] is old


def test_timms_are_resampled_to_the_image(tmp_path):
    large = networks.build("vit_tiny_patch16_224", weights=None, image_size=64)
    torch.save(large.network.state_dict(), tmp_path / "w.pt")
    small = networks.build("vit_tiny_patch16_224", weights=tmp_path / "w.pt", image_size=32).network
    positions, old = small.pos_embed, large.network.pos_embed
    assert positions.shape == (1, 1 + 2 * 2, 192)
    assert torch.equal(positions[:, 0], old[:, 0])
    low, high = old[:, 1:].min(), old[:, 1:].max()
    assert (positions[:, 1:] >= low - 0.1).all()
    assert (positions[:, 1:] <= high + 0.1).all()


def test_a_network_without_positions_keeps_its_state():
    state = {"weight": torch.zeros(1)}
    assert resample_positions(state, nn.Linear(1, 1)) is state
