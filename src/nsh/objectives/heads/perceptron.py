"""Hash heads with a hidden layer. Know no loss."""

from torch import Tensor, nn

from nsh.objectives.heads.linear import StandardisedHead


class PerceptronHead(StandardisedHead):
    """One hidden layer on standardised embeddings: logits = W relu(V ((x - mean) / scale) + c) + d."""

    def __init__(self, dim: int, bits: int, *, hidden: int, inputs: int | None = None) -> None:
        """`inputs` is the length of the output of `standardise`: `dim`, unless a subclass projects it."""
        super().__init__(dim, bits, width=hidden)
        self.hidden = nn.Linear(dim if inputs is None else inputs, hidden)

    def hide(self, inputs: Tensor) -> Tensor:
        """The hidden layer, float32 [n, hidden], of standardised embeddings, float32 [n, inputs]."""
        return self.hidden(inputs).relu()  # type: ignore[no-any-return]


class BalancedPerceptronHead(PerceptronHead):
    """A hidden layer, and batch normalisation of the logits: bits start balanced; a learned shift may change this.

    Training uses the batch's statistics; afterwards the running ones are used, which are part of the exported head.
    """

    def __init__(self, dim: int, bits: int, *, hidden: int) -> None:
        super().__init__(dim, bits, hidden=hidden)
        self.balance = nn.BatchNorm1d(bits)

    def finish(self, hidden: Tensor) -> Tensor:
        """Logits float32 [n, bits] of the hidden layer, float32 [n, hidden]."""
        return self.balance(super().finish(hidden))  # type: ignore[no-any-return]
