"""Opens the fine-tuning loop with a project's backbone and training images. Knows no method."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from nsh.backbones.blocks import CutBackbone, cut
from nsh.backbones.finetuned import to_bytes
from nsh.backbones.pixels import ImageToEmbedding
from nsh.backbones.published import open_published
from nsh.core.preprocess import PREPROCESSING
from nsh.data.registry import Choice, open_chosen
from nsh.data.split import read_header, read_part
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.code import code_digest
from nsh.system.files import sha256_bytes
from nsh.system.progress import Progress
from nsh.training.finetune.activations import LowerPart
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.loop import FineTuningLoop
from nsh.training.finetune.recipe import Recipe


def open_finetuning(
    project: Project,
    *,
    backbone: Mapping[str, Any],
    data_set: Choice,
    recipe: Mapping[str, Any],
    block: str | None,
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
        block: the first that learns; None: all learn.
        workers: threads that decode.
        cache: the folder for checkpoints and decoded images or inner activations.
        threads: torch's threads.
        device: "cpu", "cuda" or "cuda:<n>".
        progress: shows the steps.

    Raises:
        ConfigError: no such classifier or block, or it does not take images of this size.
        DataError: split, weights or embeddings are missing, or the embeddings were made with others.
    """
    name, size, resample = backbone["name"], backbone["image_size"], backbone["resample"]
    network, weights = open_published(name, project.weights, image_size=size)
    split = read_header(project.split)["sha256"]
    made_of = {"backbone": name, "weights_sha256": weights.sha256, "split_sha256": split}
    embeddings = Embeddings(project.embed)
    embeddings.require(**made_of, image_size=size, resample=resample, preprocessing=PREPROCESSING)
    images = ImageFiles(
        ids=read_part(project.split, "train").ids,
        digest=split,
        load=partial(open_chosen(data_set, raw=project.raw).image, size=size),
        size=size,
        resample=resample,
        workers=workers,
    )
    parts = None if block is None else cut(network, block)
    loop = FineTuningLoop(
        network=ImageToEmbedding(network) if parts is None else parts.upper,
        lower=None if block is None or parts is None else _describe(parts, block=block, header=embeddings.header),
        images=images,
        recipe=Recipe(**recipe),
        cache=cache,
        threads=threads,
        device=device,
        progress=progress,
    )
    return loop, network.network


def _describe(parts: CutBackbone, *, block: str, header: Mapping[str, Any]) -> LowerPart:
    """The lower part, with the views of the stage embed, whose header this is."""
    network = ImageToEmbedding(parts.lower)
    made_of = {
        "backbone": parts.lower.name,
        "weights_sha256": sha256_bytes(to_bytes(network.state_dict())),
        "preprocessing": PREPROCESSING,
        "code": code_digest(["nsh.backbones.blocks", "nsh.backbones.pixels"]),
    }
    views, seed = header["views"], header["seed"]
    return LowerPart(network=network, block=block, shape=parts.shape, views=views, seed=seed, made_of=made_of)
