"""Train: data/embed -> head.pt, backbone.pt and history.json of a pair."""

from collections.abc import Mapping
from typing import Any, Protocol

from torch import nn

from nsh.backbones.tuned import watch_changes
from nsh.methods import Loop, Method, Report, TrainingData
from nsh.project.embeddings import Embeddings
from nsh.project.paths import PairFiles, Project
from nsh.training.finetune.ranks import this_rank
from nsh.training.fit import Trained, fit
from nsh.training.loop import CachedViewLoop


class KeepingLoop(Loop, Protocol):
    """A loop that keeps partial state until what it trained is on the disk."""

    @property
    def threads(self) -> int: ...  # noqa: D102
    @property
    def device(self) -> str: ...  # noqa: D102
    def clear(self) -> None: ...  # noqa: D102


def open_loop(
    project: Project, *, mode: str, tuning: Mapping[str, Any], **settings: Any
) -> tuple[KeepingLoop, nn.Module | None]:
    """The loop that `mode` asks for, and the network whose weights it changes; None where it changes none.

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


def train_head(
    project: Project,
    files: PairFiles,
    *,
    method: Method,
    seed: int,
    loop: KeepingLoop,
    network: nn.Module | None = None,
    report: Report,
) -> Trained:
    """Fit a head and write it. Of several ranks that tune a network together, the first writes.

    Args:
        project: its embeddings are read.
        files: of the pair, to be written.
        method: what is fitted.
        seed: of all that is drawn.
        loop: runs the methods that learn by gradient, on as many threads as all others use.
        network: whose weights the loop changes, if it changes any.
        report: gets every record of the history as it is made.

    Raises:
        DataError: there are no embeddings.
        TrainingError: the method cannot be trained on them.
    """
    find_changes, data = watch_changes(network), TrainingData(*Embeddings(project.embed).read_training())
    trained = fit(method, data, bits=files.pair.bits, seed=seed, threads=loop.threads, loop=loop, report=report)
    if network is None or this_rank() == 0:
        trained.write(files, changes=find_changes())
        loop.clear()  # not before: a process that dies between the two would have trained for nothing
        print(f"{files.model}: {trained} on {loop.device} with {loop.threads} thread(s)")
    return trained
