"""Train: data/embed -> head.pt, backbone.pt and history.json of a pair."""

from torch import nn

from nsh.backbones.finetuned import watch_changes
from nsh.methods import Loop, Method, Report, TrainingData
from nsh.project.embeddings import Embeddings
from nsh.project.paths import PairFiles, Project
from nsh.training.finetune.ranks import this_rank
from nsh.training.fit import Trained, fit


def train_head(
    project: Project,
    files: PairFiles,
    *,
    method: Method,
    seed: int,
    threads: int,
    loop: Loop,
    network: nn.Module | None = None,
    report: Report,
) -> Trained:
    """Fit a head and write it. Of several ranks that tune a network together, the first writes.

    Args:
        project: its embeddings are read.
        files: of the pair, to be written.
        method: what is fitted.
        seed: of all that is drawn.
        threads: of torch; a head is the same only for the same number.
        loop: runs the methods that learn by gradient.
        network: whose weights the loop changes, if it changes any.
        report: gets every record of the history as it is made.

    Raises:
        DataError: there are no embeddings.
        TrainingError: the method cannot be trained on them.
    """
    find_changes, data = watch_changes(network), TrainingData(*Embeddings(project.embed).read_training())
    trained = fit(method, data, bits=files.pair.bits, seed=seed, threads=threads, loop=loop, report=report)
    if network is None or this_rank() == 0:
        trained.write(files, changes=find_changes())
    return trained
