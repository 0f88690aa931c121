"""A network cut before a block: its two parts one after the other are the network, and only known networks are cut."""

import pytest
import torch

from nsh.backbones import networks
from nsh.backbones.blocks import cut
from nsh.errors import ConfigError

SIZE = 32
NETWORKS = {
    "mobilenet_v2": [f"features.{number}" for number in range(1, 19)],
    "mobilenet_v3_small": [*(f"features.{number}" for number in range(1, 13)), "classifier"],
    "resnet18": ["layer1", "layer2", "layer3", "layer4"],
    "resnet10t": ["layer1", "layer2", "layer3", "layer4"],  # timm's
    "tf_efficientnet_lite0": [*(f"blocks.{number}" for number in range(7)), "conv_head"],
}
"""The blocks that may be the first that learns."""


@pytest.fixture(scope="module", params=NETWORKS)
def backbone(request):
    return networks.build(request.param, weights=None, image_size=SIZE)


def test_the_upper_part_of_the_lower_part_is_the_network(backbone):
    """The first block, one in the middle, and the last."""
    images = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    allowed = NETWORKS[backbone.name]
    with torch.no_grad():
        expected = backbone(images)
        for block in (allowed[0], allowed[len(allowed) // 2], allowed[-1]):
            parts = cut(backbone, block)
            inner = parts.lower(images)
            assert inner.shape == (2, parts.lower.dim)
            assert parts.lower.dim == torch.Size(parts.shape).numel()
            torch.testing.assert_close(parts.upper(inner), expected)


def test_every_parameter_is_in_one_part_and_the_lower_stays_frozen(backbone):
    parts = cut(backbone, NETWORKS[backbone.name][-1])
    lower, upper = ({id(parameter) for parameter in part.parameters()} for part in (parts.lower, parts.upper))
    assert not lower & upper
    assert lower | upper == {id(parameter) for parameter in backbone.parameters()}
    parts.lower.train()
    assert not any(module.training for module in parts.lower.modules())
    assert not any(parameter.requires_grad for parameter in parts.lower.parameters())
    assert (parts.lower.mean, parts.lower.std) == (backbone.mean, backbone.std)


@pytest.mark.parametrize("block", ["features.0", "layer5", "conv_stem", "conv1", "fc", ""])
def test_what_has_nothing_below_it_or_learns_nothing_is_no_block(backbone, block):
    with pytest.raises(ConfigError) as refusal:
        cut(backbone, block)
    allowed = ", ".join(NETWORKS[backbone.name])
    expected = f"found {block}, allowed for {backbone.name} are {allowed}, or null: all layers learn"
    assert str(refusal.value) == f"train.finetune.from: {expected}"


def test_a_network_whose_order_is_not_known_is_refused_with_those_whose_is():
    backbone = networks.build("shufflenet_v2_x0_5", weights=None, image_size=SIZE)
    with pytest.raises(ConfigError, match=r"allowed for shufflenet_v2_x0_5 is null.*timm's EfficientNet.*or null$"):
        cut(backbone, "stage4")
