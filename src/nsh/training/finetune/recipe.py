"""How a backbone is fine-tuned, besides the method's own schedule. Knows no network."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings, as in params.yaml's `train.finetune`.

    Attributes:
        learning_rate: of the backbone; the heads' is the method's.
        batch_norm: "frozen": batch normalisation stays in inference mode and its weights learn (as in the authors'
            later code); "trained": it uses the batches' statistics, on several CPU ranks those of the rank's part.
        precision: the backbone's; the objective is always float32, because its sort and logarithms need it.
        channels_last: whether the backbone's memory is in channels-last order.
        compile: whether torch compiles the backbone.
        clip: largest norm of all gradients together; None: no limit.
        average: what remains of the weights' exponential average in a late step, in [0, 1); the averaged weights are
            validated and kept. 0: those of the last step.
        held_out: training images kept for validation; 0: none.
        patience: stop after this many epochs without a smaller held-out loss; None: never.
        keep: "best": keep the weights of the epoch with the smallest held-out loss; "last": those of the last epoch.
        checkpoint_minutes: minutes between two checkpoints; one more is written after every epoch.
    """

    learning_rate: float
    batch_norm: Literal["frozen", "trained"]
    precision: Literal["fp32", "bf16"]
    channels_last: bool
    compile: bool
    clip: float | None
    average: float
    held_out: int
    patience: int | None
    keep: Literal["best", "last"]
    checkpoint_minutes: float

    def identity(self) -> dict[str, Any]:
        """The settings that the weights of every epoch depend on."""
        return {name: value for name, value in asdict(self).items() if name not in ("keep", "checkpoint_minutes")}
