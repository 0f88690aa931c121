"""How far a training has come, for losses that change on the way. Knows no loss."""

from nsh.objectives.base import TrainingData
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.noise import Counter


class Elapsed(Counter):
    """Counts the steps of a training; checkpoints hold the number."""

    def __init__(self, method: GradientMethod, data: TrainingData) -> None:
        super().__init__()
        self.total = method.epochs * max(len(data.features) // method.batch, 1)

    def next(self) -> float:
        """The share of the steps that was done before this one, in [0, 1), and 1 in steps beyond the last one."""
        share = min(self.count / self.total, 1.0)
        self.count += 1
        return share
