"""Whether an objective can train what made its embeddings. It knows no method by name."""

import numpy as np
import torch
from torch import Tensor

from nsh.core.errors import TrainingError
from nsh.methods.base import Objective, TrainingData


def require_both_views(objective: Objective, data: TrainingData, *, batch: int, method: str) -> None:
    """Make sure that the loss of a step depends on the embeddings of both views in it.

    Not so those that read stored features instead: of clean images, or of other views than the step's. The backbone
    would be moved away under them, and get no gradient where its features are the target.

    Raises:
        TrainingError: it does not.
    """
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    views = (np.array(data.views[:batch, view], np.float32) for view in (0, 1))
    first, second = (torch.from_numpy(view).requires_grad_() for view in views)
    loss: Tensor = objective.measure(torch.arange(batch), first, second)["loss"]
    reached = torch.autograd.grad(loss, [first, second], allow_unused=True)
    objective.load_state_dict(before)
    if any(gradient is None for gradient in reached):
        raise TrainingError(
            f"found method {method}, which learns from stored features of the frozen backbone, not from both views of "
            "a step: fine-tuning cannot train it; set train.mode: frozen, or choose a method that compares two views"
        )
