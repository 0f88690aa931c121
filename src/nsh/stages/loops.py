"""The loop that a mode of training asks for. Knows no method."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from nsh.project.paths import Project
from nsh.training.loop import CachedViewLoop


def open_loop(
    project: Project, *, mode: str, tuning: Mapping[str, Any], **settings: Any
) -> tuple[Any, nn.Module | None]:
    """The loop, and the network whose weights it changes; None where it changes none.

    Args:
        project: whose backbone and images fine-tuning reads, and whose cache takes the partial state.
        mode: "frozen" or "finetune".
        tuning: what only `nsh.stages.tuning.open_tuning` takes.
        settings: threads, device and progress.
    """
    settings |= {"cache": project.cache("train")}
    if mode == "frozen":
        return CachedViewLoop(**settings), None
    from nsh.stages.tuning import open_tuning  # slow to import

    return open_tuning(project, **tuning, **settings)
