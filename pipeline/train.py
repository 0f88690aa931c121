"""Stage train: data/embed -> models/<method>-<bits>/{head.pt, backbone.pt, history.json}.

Fine-tuning reads the images and the backbone's weights too. data/embed stands for them among the dependencies: it is
made of them, so that it changes when they do; here they are held against what it says of them.
"""

from contextlib import nullcontext
from pathlib import Path

from nsh.config import read_params
from nsh.methods import create
from nsh.project.paths import Project
from nsh.stages.loops import open_loop
from nsh.stages.train import train_head
from nsh.system.command import run_stage
from nsh.system.progress import no_progress
from nsh.terminal import show_progress, take_pair
from nsh.tracking import training_run
from nsh.training.device import choose_device
from nsh.training.finetune.ranks import start_missing_ranks, this_rank


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
    finetuning = {
        "backbone": params.backbone.model_dump(exclude={"weights"}),
        "data_set": params.dataset,
        "recipe": train.finetune.model_dump(exclude={"ranks", "from_block"}),
        "block": train.finetune.from_block,
        "workers": params.compute.threads,
    }
    with nullcontext(lambda record: None) if rank else training_run(Path(), params, pair=pair) as report:
        shown = {"device": device, "progress": no_progress if rank else show_progress}
        loop, network = open_loop(project, mode=train.mode, finetuning=finetuning, threads=train.threads, **shown)
        settings = {"seed": train.seed, "threads": train.threads, "loop": loop, "network": network, "report": report}
        trained = train_head(project, project.of(pair), method=method, **settings)
    if not rank:
        loop.clear()  # not before: a process that dies between the two would have trained for nothing
        print(f"{project.of(pair).model}: {trained} on {device} with {train.threads} thread(s)")


if __name__ == "__main__":
    run_stage(main)
