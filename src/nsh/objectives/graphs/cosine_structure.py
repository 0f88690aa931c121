"""The loss of GreedyHash and Bi-half: the cosines of codes should equal those of features. Knows no network."""

from torch import Tensor
from torch.nn import functional


def cosine_structure(codes: Tensor, features: Tensor) -> Tensor:
    """Mean over all pairs i != j of (cos(b_i, b_j) - cos(x_i, x_j))^2.

    Su et al., "Greedy Hash", NeurIPS 2018, section 3.4 (unsupervised). There each image has one partner, half a batch
    further on; all pairs of the batch have the same expectation and less noise.

    Args:
        codes: float [n, bits], n >= 2.
        features: float [n, dim]; no gradient reaches them.

    Returns:
        float scalar.
    """
    of_codes = functional.normalize(codes, dim=1)
    of_features = functional.normalize(features.detach(), dim=1)
    difference = (of_codes @ of_codes.T - of_features @ of_features.T).square()
    count = len(codes)
    return (difference.sum() - difference.diagonal().sum()) / (count * (count - 1))
