"""Bits in training: the sign with a gradient, and rounding errors. Knows no network and no sorting."""

import torch
from torch import Tensor

from nsh.objectives.roots import square_root

ROOT_FLOOR = 1e-12  # keeps the root's gradient finite if every entry is exactly ±1


def sign(hidden: Tensor) -> Tensor:
    """+1 if hidden > 0, else -1: the bit rule of `nsh.core.codes` in ±1."""
    return torch.where(hidden > 0, 1.0, -1.0)


def straight_through(hidden: Tensor) -> Tensor:
    """`sign(hidden)`, exactly ±1, with the gradient of the identity: db/dh := I (paper, section 3).

    Args:
        hidden: float of any shape.
    """
    return sign(hidden) + (hidden - hidden.detach())


def quantisation(first: Tensor, second: Tensor) -> Tensor:
    """L_R = (||sg(B~) - H~||_2 + ||sg(B^) - H^||_2) / 2n (paper, section 4.4), the norm unsquared and over all entries.

    Args:
        first: hidden codes H~ of one view, float [n, bits] in [-1, 1].
        second: hidden codes H^ of the other.

    Returns:
        float scalar >= 0; its gradient is 0, not NaN, if every entry is ±1.
    """
    return (_distance_to_code(first) + _distance_to_code(second)) / (2 * len(first))


def squared_quantisation(first: Tensor, second: Tensor) -> Tensor:
    """L_R read with the norms squared: (||sg(B~) - H~||_F^2 + ||sg(B^) - H^||_F^2) / 2n; arguments as above.

    It is sqrt(n bits) times as large as the unsquared norm if every entry is off by 1.
    """
    return (_squared_distance(first) + _squared_distance(second)) / (2 * len(first))


def mean_quantisation(first: Tensor, second: Tensor) -> Tensor:
    """L_R as the mean squared entry of sg(B) - H over both views, in [0, 1]; arguments as above."""
    return squared_quantisation(first, second) / first.shape[1]


def rounding_error(logits: Tensor) -> float:
    """Mean squared entry of sign(V) - V: the rounding error of logits V, which ITQ minimises.

    Args:
        logits: float of any shape.
    """
    return float((sign(logits) - logits).square().mean())


def _distance_to_code(hidden: Tensor) -> Tensor:
    return square_root(_squared_distance(hidden) + ROOT_FLOOR)


def _squared_distance(hidden: Tensor) -> Tensor:
    return (sign(hidden).detach() - hidden).square().sum()
