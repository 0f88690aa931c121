"""Stage train: data/embed -> models/<method>-<bits>/{head.pt, backbone.pt, history.json}.

Fine-tuning reads the images and the backbone's weights too. data/embed stands for them among the dependencies: it is
made of them, so that it changes when they do; here they are held against what it says of them.
"""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from nsh.backbones.tuned import watch_changes
from nsh.config import Params, read_params
from nsh.methods import TrainingData, create
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.system.progress import no_progress
from nsh.terminal import show_progress, take_pair
from nsh.tracking import training_run
from nsh.training.device import choose_device
from nsh.training.finetune.ranks import start_missing_ranks, this_rank
from nsh.training.fit import fit
from nsh.training.loop import CachedViewLoop


def main() -> None:
    """Train one method at one code length."""
    pair = take_pair("Learn models/<method>-<bits>/head.pt from the cached embeddings.")
    params, project = read_params(), Project()
    method = create(pair.method, params.methods.model_dump().get(pair.method, {}))
    train, device = params.train, choose_device(params.compute.device)
    tunes, batch = train.mode == "finetune", getattr(method, "batch", None)
    if tunes and start_missing_ranks(train.finetune.ranks, batch=batch, device=device):
        return
    rank = this_rank() if tunes else 0  # of those that train heads alone, each does so for itself
    with nullcontext(lambda record: None) if rank else training_run(Path(), params, pair=pair) as report:
        progress = no_progress if rank else show_progress
        loop, network = _open_loop(params, project, device=device, threads=train.threads, progress=progress)
        find_changes, data = watch_changes(network), TrainingData(*Embeddings(project.embed).read_training())
        trained = fit(method, data, bits=pair.bits, seed=train.seed, threads=train.threads, loop=loop, report=report)
        if rank:
            return
        trained.write(project.of(pair), changes=find_changes())
    loop.clear()  # not before: a process that dies between the two would have trained for nothing
    print(f"{project.of(pair).model}: {trained} on {device} with {train.threads} thread(s)")


def _open_loop(params: Params, project: Project, **settings: Any) -> tuple[Any, Any]:
    """The loop that the mode asks for, and the network whose weights it changes; None where it changes none."""
    settings |= {"cache": project.cache("train")}
    if params.train.mode == "frozen":
        return CachedViewLoop(**settings), None
    from nsh.tuning import open_tuning  # slow to import

    recipe, workers = params.train.finetune.model_dump(exclude={"ranks"}), params.compute.threads
    data_set = params.dataset.model_dump(exclude={"exclude"})
    backbone = params.backbone.model_dump(exclude={"weights"})
    return open_tuning(project, backbone=backbone, data_set=data_set, recipe=recipe, workers=workers, **settings)


if __name__ == "__main__":
    run_stage(main)
