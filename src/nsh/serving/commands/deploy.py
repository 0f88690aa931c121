"""`nsh deploy` and `nsh rollback`: an encoder and its index, replaced together under a running service."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsh.core.limits import MAX_PIXELS
from nsh.serving.commands.encode import Excluded, MaxPixels, Ray, encoding_engine

if TYPE_CHECKING:
    from nsh.serving.deployment.deploy import Outcome

_LEAVE_OUT = "Go on without items whose image cannot be found or decoded, instead of refusing."
Threads = Annotated[int | None, typer.Option(min=1, help="Cores to use; if not given, all, with --ray 4 an actor.")]
LeaveOut = Annotated[bool, typer.Option("--leave-out", help=_LEAVE_OUT)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def deploy(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="The encoder: a file, https://host/encoder.onnx#sha256=DIGEST, or models:/name@alias (extra ops).",
            show_default=False,
        ),
    ],
    to: Annotated[Path, typer.Option(help="Folder of the deployment; made if it is missing.")],
    images: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder, address or archive with the images of the items, as nsh encode takes it; can be repeated; if "
            "not given, those of the last deployment.",
            show_default=False,
        ),
    ] = None,
    root: Annotated[
        str | None, typer.Option(help="Folder or address that ids are relative to, as of nsh encode.")
    ] = None,
    exclude: Excluded = None,
    index: Annotated[
        Path | None,
        typer.Option(help="An index whose items and metadata a new deployment begins with; if not given, all images."),
    ] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Stop before the switch: a later nsh deploy only catches up and switches.")
    ] = False,
    min_recall: Annotated[
        float, typer.Option(min=0, max=1, help="Smallest share of former neighbours that the new index must find.")
    ] = 0.3,
    leave_out: LeaveOut = False,
    ray: Ray = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto: CUDA if available.")] = "cpu",
    threads: Threads = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: AsJson = False,
) -> None:
    """Replace the encoder of a deployment, and its index, under running services.

    Encodes the images of all items again into a new index, with the ids and metadata of the old one; compares their
    neighbours; then moves one link to the new encoder and index. Services that were started with --deployment follow
    within seconds, without an error. Items that are added, changed or removed meanwhile are not lost. After an
    interruption, the same command continues. `nsh rollback` goes back.

    For example:

        nsh deploy encoder.onnx --to deployment --images photos
        nsh serve --deployment deployment --images photos
        nsh deploy models:/photos-nsh-64@champion --to deployment
        nsh rollback deployment
    """
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.deployment.deploy import Conditions, Deployer
    from nsh.serving.deployment.folder import Deployment
    from nsh.serving.deployment.items import ItemEncoder
    from nsh.serving.deployment.places import ImagePlaces
    from nsh.serving.encoder import Encoder

    encoder = Encoder(
        find_model(model, from_registry=context.obj, progress=show_progress),
        threads=threads,
        device=device,
        max_pixels=max_pixels,
    )
    deployment, conditions = Deployment(to), Conditions(min_recall=min_recall, leave_out=leave_out)
    with deployment.changing(), encoding_engine(ray, encoder, threads) as encode_images:
        places = ImagePlaces.keep(to, images or (), root=root, exclude=exclude or ())
        items = ItemEncoder(encoder, places.find(progress=show_progress), encode_images=encode_images)
        deployer = Deployer(deployment=deployment, items=items, conditions=conditions, progress=show_progress)
        outcome = deployer.deploy(adopt=index, switch=not prepare)
    _print(outcome, as_json=as_json)


def rollback(
    folder: Annotated[Path, typer.Argument(help="Folder of the deployment.", show_default=False)],
    leave_out: LeaveOut = False,
    threads: Threads = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: AsJson = False,
) -> None:
    """Switch a deployment back to the release before, under running services.

    What was added, changed or removed since the switch is done to the former index first; only that is encoded. Once
    more leads forward again.

    For example:

        nsh rollback deployment
    """
    from nsh.serving.bulk import encode_files
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.deployment.deploy import Conditions, Deployer
    from nsh.serving.deployment.folder import Deployment
    from nsh.serving.deployment.items import ItemEncoder
    from nsh.serving.deployment.places import ImagePlaces
    from nsh.serving.encoder import Encoder

    deployment, conditions = Deployment(folder), Conditions(min_recall=0, leave_out=leave_out)
    with deployment.changing():
        encoder = Encoder(deployment.former().model, threads=threads, max_pixels=max_pixels)
        places = ImagePlaces.keep(folder, (), root=None, exclude=())
        items = ItemEncoder(encoder, places.find(progress=show_progress), encode_images=encode_files)
        deployer = Deployer(deployment=deployment, items=items, conditions=conditions, progress=show_progress)
        outcome = deployer.go_back()
    _print(outcome, as_json=as_json)


def _print(outcome: "Outcome", *, as_json: bool) -> None:
    release, former = outcome.release, outcome.former
    if as_json:
        figures = {name: getattr(outcome, name) for name in ("items", "left_out", "recall", "switched")}
        names = {"release": str(release.folder), "former": None if former is None else str(former.folder)}
        typer.echo(json.dumps({**names, **figures}, indent=2))
        return
    state = "current now" if outcome.switched else "prepared, not switched to" if former else "current already"
    typer.echo(f"{release.folder}: {outcome.items} items, {state}")
    if outcome.left_out:
        typer.echo(f"{outcome.left_out} items were left out: their images cannot be found or decoded")
    if outcome.recall is not None:
        typer.echo(f"{outcome.recall:.2f} of the former neighbours are found")
    if not outcome.switched and former is not None:
        typer.echo(f"compare: nsh serve … --shadow {release.model}:{release.index}")
