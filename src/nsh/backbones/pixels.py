"""A backbone with its normalisation: the network that is exported, run and fine-tuned."""

import torch
from torch import Tensor, nn

from nsh.backbones.networks import Backbone


class ImageToEmbedding(nn.Module):
    """Normalisation and backbone: from uint8 pixels to embeddings."""

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.register_buffer("mean", torch.tensor(backbone.mean, dtype=torch.float32).reshape(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(backbone.std, dtype=torch.float32).reshape(1, 3, 1, 1))

    def forward(self, image: Tensor) -> Tensor:
        """Map RGB images, uint8 [n, S, S, 3], to embeddings, float32 [n, d]."""
        pixels = image.permute(0, 3, 1, 2).to(torch.float32) / 255
        embedding: Tensor = self.backbone((pixels - self.mean) / self.std)
        return embedding
