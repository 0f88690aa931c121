"""How a backbone is fine-tuned, beside the method's own schedule. It knows no network."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings, as in params.yaml's `train.finetune`.

    Attributes:
        learning_rate: of the backbone; the heads' is the method's.
        batch_norm: "frozen": batch normalisation stays in inference mode, its weights learn (as in the authors' later
            code); "trained": it uses and follows the batches' statistics, on several CPU ranks those of a rank's part.
        precision: of the backbone; the objective, whose sort and logarithms bear no rounding, is always float32.
        channels_last: order of the backbone's memory.
        compile: let torch compile the backbone.
        clip: largest length of all gradients together; None: any.
        held_out: training images that are kept for validation; 0: none.
        patience: stop after so many epochs without a smaller loss on held-out images; None: never.
        keep: "best": the epoch with the smallest loss on held-out images is what is left; "last".
        checkpoint_minutes: between two checkpoints, besides the one after every epoch.
    """

    learning_rate: float
    batch_norm: Literal["frozen", "trained"]
    precision: Literal["fp32", "bf16"]
    channels_last: bool
    compile: bool
    clip: float | None
    held_out: int
    patience: int | None
    keep: Literal["best", "last"]
    checkpoint_minutes: float

    def facts(self) -> dict[str, Any]:
        """The settings that the weights of every epoch depend on."""
        return {name: value for name, value in asdict(self).items() if name not in ("keep", "checkpoint_minutes")}
