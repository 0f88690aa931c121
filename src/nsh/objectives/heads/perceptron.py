"""Hash heads with a hidden layer. They know no loss."""

from torch import Tensor, nn

from nsh.objectives.heads.linear import StandardisedHead


class PerceptronHead(StandardisedHead):
    """One hidden layer on standardised embeddings: logits = W relu(V ((x - mean) / scale) + c) + d."""

    def __init__(self, dim: int, bits: int, *, hidden: int) -> None:
        super().__init__(dim, bits)
        self.hidden = nn.Linear(dim, hidden)
        self.linear = nn.Linear(hidden, bits)

    def hide(self, embeddings: Tensor) -> Tensor:
        """The hidden layer, float32 [n, hidden], of embeddings float32 [n, dim]."""
        return self.hidden(self.standardise(embeddings)).relu()  # type: ignore[no-any-return]


class BalancedPerceptronHead(PerceptronHead):
    """A hidden layer and a batch normalisation behind it: bits start balanced; a learned shift may move them.

    In training the batch's statistics are used, afterwards the running ones, which ship with the head.
    """

    def __init__(self, dim: int, bits: int, *, hidden: int) -> None:
        super().__init__(dim, bits, hidden=hidden)
        self.balance = nn.BatchNorm1d(bits)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] of embeddings float32 [n, dim]."""
        return self.balance(super().forward(embeddings))  # type: ignore[no-any-return]
