"""`nsh weights`: the backbone that a fine-tuning has trained, as a file of weights that any run may start from."""

from pathlib import Path
from typing import Annotated

import typer

from nsh.errors import ConfigError

PROJECT = Path()  # every command runs in the project's folder


def weights(
    method: Annotated[str, typer.Option(help="The method that was fine-tuned.")],
    bits: Annotated[int, typer.Option(help="Its code length.")],
    out: Annotated[Path, typer.Option(help="File to write; it must not exist.")],
) -> None:
    """Write a fine-tuned backbone as a file of weights, for `backbone.weights` in params.yaml.

    With it the next run embeds the images again: every method finds better neighbours there, and learns its head at
    every code length without more fine-tuning.
    """
    import torch

    from nsh.backbones.finetuned import apply_changes
    from nsh.backbones.published import open_published
    from nsh.project.embeddings import Embeddings
    from nsh.project.paths import Pair, Project
    from nsh.system.files import atomic_path

    if out.exists():
        raise ConfigError(f"--out: found {out}, which exists: name another file")
    project = Project(PROJECT)
    header, files = Embeddings(project.embed).header, project.of(Pair(method, bits))
    backbone, _ = open_published(header["backbone"], project.weights, image_size=header["image_size"])
    if not apply_changes(files.backbone, backbone.network):
        raise ConfigError(f"{files.backbone} changes nothing: set train.mode to finetune in params.yaml, train again")
    with atomic_path(out) as partial:
        torch.save(backbone.network.state_dict(), partial)
    typer.echo(f"{out}: the backbone of {files.pair.key}; set backbone.weights to it and train.mode to frozen")
