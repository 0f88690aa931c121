"""Resamples a vision transformer's position embeddings to another size of images.

As Dosovitskiy et al., ICLR 2021, section 3.2. Does not know where weights come from.
"""

from typing import Any

from torch import Tensor, nn
from torchvision.models.vision_transformer import interpolate_embeddings

State = dict[str, Tensor]

_TORCHVISION = "encoder.pos_embedding"
_TIMM = "pos_embed"


def resample_positions(state: State, network: nn.Module) -> State:
    """`state` with position embeddings of the network's length, where it has any of another length.

    Args:
        state: a state_dict.
        network: of torchvision or timm.
    """
    expected = network.state_dict()
    for name, resample in ((_TORCHVISION, _of_torchvision), (_TIMM, _of_timm)):
        if name in expected and name in state and expected[name].shape != state[name].shape:
            return {**state, name: resample(state[name], network)}
    return state


def _of_torchvision(positions: Tensor, network: Any) -> Tensor:
    side = round((network.encoder.pos_embedding.shape[1] - 1) ** 0.5)  # in patches: the first one is the class token's
    resampled: Tensor = interpolate_embeddings(side, 1, {_TORCHVISION: positions})[_TORCHVISION]
    return resampled


def _of_timm(positions: Tensor, network: Any) -> Tensor:
    from timm.layers.pos_embed import resample_abs_pos_embed

    prefix = 0 if network.no_embed_class else network.num_prefix_tokens  # class token and registers have no place
    resampled: Tensor = resample_abs_pos_embed(positions, list(network.patch_embed.grid_size), num_prefix_tokens=prefix)
    return resampled
