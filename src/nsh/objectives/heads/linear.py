"""Linear hash heads, and the bytes of a head on disk. Knows no method."""

import io

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import HashHead, TrainingData

CONSTANT_SHARE = 1e-3  # a feature that varies less than this share of the average feature is constant


class StandardisedHead(HashHead):
    """One linear layer on standardised embeddings: logits = W ((x - mean) / scale) + c.

    Logits are computed in three steps, which a subclass may replace: `standardise`, `hide`, `finish`.
    `mean` and `scale` [dim] are buffers, which are part of the exported head.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, dim: int, bits: int, *, width: int | None = None) -> None:
        """`width` is the length of the last layer's input: `dim`, unless a subclass has a hidden layer."""
        super().__init__(dim, bits)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.linear = nn.Linear(dim if width is None else width, bits)

    def fit_inputs(self, data: TrainingData) -> None:
        """Fit the parts before the first layer that learns by gradient: here mean and scale."""
        self.fit_standardisation(torch.from_numpy(data.features))

    def fit_standardisation(self, features: Tensor) -> None:
        """Take mean and scale from clean features, float [n, dim].

        The scale has a lower limit, because a nearly constant feature would be magnified; if all features are constant
        none is scaled.
        """
        spread = features.double().std(dim=0, correction=0)
        floor = CONSTANT_SHARE * spread.mean()
        self.mean.copy_(features.double().mean(dim=0))
        self.scale.copy_(spread.clamp_min(floor) if floor > 0 else torch.ones_like(spread))

    def standardise(self, embeddings: Tensor) -> Tensor:
        """Embeddings float32 [n, dim] with the mean and scale of the fitted ones removed."""
        return (embeddings - self.mean) / self.scale

    def hide(self, inputs: Tensor) -> Tensor:
        """The last layer's input from standardised embeddings; here the same: float32 [n, width]."""
        return inputs

    def finish(self, hidden: Tensor) -> Tensor:
        """Logits float32 [n, bits] of the last layer's input, float32 [n, width]."""
        return self.linear(hidden)  # type: ignore[no-any-return]

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] of embeddings float32 [n, dim]."""
        return self.finish(self.hide(self.standardise(embeddings)))


class UnitHead(HashHead):
    """One linear layer on embeddings of unit length: logits = W x / |x| + c; a zero embedding stays zero."""

    def __init__(self, dim: int, bits: int) -> None:
        super().__init__(dim, bits)
        self.linear = nn.Linear(dim, bits)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] of embeddings float32 [n, dim]."""
        return self.linear(functional.normalize(embeddings, dim=1))  # type: ignore[no-any-return]

    @torch.no_grad()
    def set_projection(self, directions: Tensor, *, origin: Tensor) -> None:
        """Make it logits = (x / |x| - origin) directions, from float64 [dim, bits] and [dim]."""
        self.linear.weight.copy_(directions.T)
        self.linear.bias.copy_(-origin @ directions)


def unit_features(data: TrainingData) -> Tensor:
    """The clean features of unit length, as in `UnitHead`: float64 [n, dim]."""
    features = torch.from_numpy(data.features).double()
    return functional.normalize(features, dim=1, out=features)


def to_bytes(head: HashHead) -> bytes:
    """The head's state dict for `torch.load(..., weights_only=True)`; equal heads give equal bytes.

    Torch does not write it to a path, because it would put the temporary file's name into the archive.
    """
    buffer = io.BytesIO()
    torch.save(head.state_dict(), buffer)
    return buffer.getvalue()


@torch.no_grad()
def draw_uniform(layer: nn.Linear, generator: torch.Generator) -> None:
    """Fill a linear layer by torch's default, uniform in ±1/sqrt(inputs), from an explicit generator."""
    bound = layer.in_features**-0.5
    layer.weight.uniform_(-bound, bound, generator=generator)
    layer.bias.uniform_(-bound, bound, generator=generator)
