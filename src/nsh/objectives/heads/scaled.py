"""A linear head whose embeddings keep the proportions of their features. Knows no method."""

import torch
from torch import Tensor

from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.roots import square_root


class ScaledHead(StandardisedHead):
    """One linear layer on centred embeddings that are divided by one number: logits = W ((x - mean) / scale) + c.

    Features that vary much stay large, as in the raw features that a method was published for; a standardised
    embedding gives those that hardly vary the same share in every cosine.
    """

    def fit_standardisation(self, features: Tensor) -> None:
        """Take the mean from clean features, float [n, dim], and their root mean variance as the one scale.

        If all features are constant none is scaled.
        """
        variance = features.double().var(dim=0, correction=0).mean()
        self.mean.copy_(features.double().mean(dim=0))
        self.scale.copy_(torch.where(variance > 0, square_root(variance), 1.0).expand(len(self.scale)))
