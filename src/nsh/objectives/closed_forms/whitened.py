"""A hash head on whitened embeddings, whose bits are balanced. Knows no loss."""

import torch
from torch import Tensor, nn

from nsh.objectives.base import TrainingData
from nsh.objectives.closed_forms.whitening import discriminant_directions
from nsh.objectives.heads.perceptron import PerceptronHead


class WhitenedHead(PerceptronHead):
    """One hidden layer on whitened embeddings, balanced: logits = norm(W relu(V P^T ((x - mean) / scale) + c)).

    The batch normalisation has no learned scale or shift, so that in a batch no bit is constant and no logit saturates.
    """

    directions: Tensor

    def __init__(self, dim: int, bits: int, *, hidden: int, directions: int) -> None:
        kept = min(directions, dim)
        super().__init__(dim, bits, hidden=hidden, inputs=kept)
        self.register_buffer("directions", torch.zeros(dim, kept))
        self.balance = nn.BatchNorm1d(bits, affine=False)

    @torch.no_grad()
    def fit_inputs(self, data: TrainingData) -> None:
        """Fit mean and scale, then the directions of standardised training images.

        Raises:
            TrainingError: all training images have the same embedding.
        """
        super().fit_inputs(data)
        scale = self.scale.double()
        features = (torch.from_numpy(data.features).double() - self.mean) / scale
        count = self.directions.shape[1]
        self.directions.copy_(discriminant_directions(features, data.views, scale=scale, count=count))

    def standardise(self, embeddings: Tensor) -> Tensor:
        """Embeddings float32 [n, dim] to their whitened projections, float32 [n, directions]."""
        return super().standardise(embeddings) @ self.directions

    def finish(self, hidden: Tensor) -> Tensor:
        """Logits float32 [n, bits] of the hidden layer, float32 [n, hidden]."""
        return self.balance(super().finish(hidden))  # type: ignore[no-any-return]
