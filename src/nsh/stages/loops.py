"""The loop that a mode of training asks for. Knows no method."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from nsh.project.paths import Project
from nsh.training.loop import CachedViewLoop


def open_loop(
    project: Project, *, mode: str, finetuning: Mapping[str, Any], **settings: Any
) -> tuple[Any, nn.Module | None]:
    """The loop, and the network whose weights it changes; None where it changes none.

    Args:
        project: whose backbone and images fine-tuning reads, and whose cache takes the partial state.
        mode: "frozen" or "finetune".
        finetuning: what only `nsh.stages.finetuning.open_finetuning` takes.
        settings: threads, device and progress.
    """
    settings |= {"cache": project.cache("train")}
    if mode == "frozen":
        return CachedViewLoop(**settings), None
    from nsh.stages.finetuning import open_finetuning  # slow to import

    return open_finetuning(project, **finetuning, **settings)
