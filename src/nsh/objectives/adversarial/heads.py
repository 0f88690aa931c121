"""The hash head that is a part of the critic. Knows no loss."""

from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.adversarial.game import drop
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise

SLOPE = 0.2  # of the rectifier below 0
SHARES = (0.2, 0.5)  # dropped of the input, and between the hidden layers


class CriticHead(StandardisedHead):
    """Two hidden layers with leaky rectifiers, which critic and code share, and a linear layer: the logits."""

    def __init__(self, dim: int, bits: int, *, hidden: int) -> None:
        """`hidden` is the length of the first layer; the second has half of it, one at least."""
        self.shared = max(hidden // 2, 1)
        super().__init__(dim, bits, width=self.shared)
        self.first = nn.Linear(dim, hidden)
        self.second = nn.Linear(hidden, self.shared)

    def hide(self, inputs: Tensor) -> Tensor:
        """The shared features, float32 [n, hidden / 2], of standardised embeddings, float32 [n, dim]."""
        return _rectify(self.second(_rectify(self.first(inputs))))

    def hide_dropped(self, inputs: Tensor, noise: Noise) -> Tensor:
        """`hide` as it is in training, with dropout."""
        first = _rectify(self.first(drop(inputs, SHARES[0], noise)))
        return _rectify(self.second(drop(first, SHARES[1], noise)))


def _rectify(values: Tensor) -> Tensor:
    return functional.leaky_relu(values, SLOPE)
