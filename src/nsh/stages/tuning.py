"""Opens the fine-tuning loop with a project's backbone and training images. Knows no method."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from nsh.backbones.pixels import ImageToEmbedding
from nsh.backbones.published import open_published
from nsh.core.preprocess import PREPROCESSING
from nsh.data.registry import Choice, open_chosen
from nsh.data.split import read_header, read_part
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.progress import Progress
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.loop import FineTuningLoop
from nsh.training.finetune.recipe import Recipe


def open_tuning(
    project: Project,
    *,
    backbone: Mapping[str, Any],
    data_set: Choice,
    recipe: Mapping[str, Any],
    workers: int,
    cache: Path,
    threads: int,
    device: str,
    progress: Progress,
) -> tuple[FineTuningLoop, nn.Module]:
    """Open the loop, and the network whose weights it changes.

    Args:
        project: its split, its embeddings and its published weights are read.
        backbone: "name", "image_size" and "resample".
        data_set: params.yaml's block `dataset`.
        recipe: the settings of `nsh.training.finetune.recipe.Recipe`.
        workers: threads that decode.
        cache: the folder for checkpoints and decoded images.
        threads: torch's threads.
        device: "cpu", "cuda" or "cuda:<n>".
        progress: shows the steps.

    Raises:
        ConfigError: no such classifier, or it does not take images of this size.
        DataError: split, weights or embeddings are missing, or the embeddings were made with others.
    """
    name, size, resample = backbone["name"], backbone["image_size"], backbone["resample"]
    network, weights = open_published(name, project.weights, image_size=size)
    split = read_header(project.split)["sha256"]
    made_of = {"backbone": name, "weights_sha256": weights.sha256, "split_sha256": split}
    Embeddings(project.embed).require(**made_of, image_size=size, resample=resample, preprocessing=PREPROCESSING)
    images = ImageFiles(
        ids=read_part(project.split, "train").ids,
        digest=split,
        load=partial(open_chosen(data_set, raw=project.raw).image, size=size),
        size=size,
        resample=resample,
        workers=workers,
    )
    loop = FineTuningLoop(
        network=ImageToEmbedding(network),
        images=images,
        recipe=Recipe(**recipe),
        cache=cache,
        threads=threads,
        device=device,
        progress=progress,
    )
    return loop, network.network
