"""`nsh duplicates`: groups of images that are nearly the same."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsh.core.limits import MAX_PIXELS
from nsh.serving.commands.encode import Excluded, MaxPixels, Model

if TYPE_CHECKING:
    from nsh.errors import UnreadableImage
    from nsh.serving.duplicates import Group

SOME_FAILED = 1


def duplicates(
    context: typer.Context,
    images: Annotated[
        list[str],
        typer.Argument(help="Folders and files; - reads a list from standard input.", show_default=False),
    ],
    model: Model,
    radius: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Bits by which neighbours in a group may differ.  [default: one in 16 of a code; saving again as JPEG "
            "or at half the size flips no more]",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write, with thumbnails of every group.", show_default=False)
    ] = None,
    exclude: Excluded = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find groups of images whose codes are nearly equal.

    An image is in one group at most. No file is deleted or moved: look at the report and decide.

    Example:
    nsh duplicates photos --model encoder.onnx --report duplicates.html

    Exit code: 0 done; 1 some images could not be decoded or some folders not be read, the others were compared; 2 no
    image was compared.
    """
    import numpy as np

    from nsh.core.image_files import UNREADABLE, describe
    from nsh.errors import UnreadableImage
    from nsh.serving.arguments import LIST, find_model, list_images
    from nsh.serving.commands.report_file import try_report
    from nsh.serving.commands.terminal import show_progress, standard_input
    from nsh.serving.duplicates import default_radius, find_groups, write_report
    from nsh.serving.encoder import Encoder

    if report is not None:
        try_report(report)
    encoder = Encoder(find_model(model, from_registry=context.obj, progress=show_progress), max_pixels=max_pixels)
    radius = default_radius(encoder.contract.bits) if radius is None else radius
    stdin = standard_input() if LIST in images else None
    found = list_images(images, exclude=exclude or (), stdin=stdin, progress=show_progress)
    results = encoder.encode_each(found.path(name) for name in found.ids)
    encoded = list(zip(found.ids, show_progress(results, desc="encode", total=len(found.ids)), strict=True))
    good = [(name, result) for name, result in encoded if not isinstance(result, UnreadableImage)]
    failed = [(name, result) for name, result in encoded if isinstance(result, UnreadableImage)]
    ids = [name for name, _ in good]
    codes = np.array([code for _, code in good], np.uint8).reshape(len(good), -(-encoder.contract.bits // 8))
    groups = find_groups(codes, radius=radius, progress=show_progress)
    if as_json:
        described = _describe(groups, ids, failed, radius=radius)
        typer.echo(json.dumps(described | {"left_out": dict(found.left_out)}, indent=2))
    else:
        _print(groups, ids, failed)
        if found.left_out:
            typer.echo(describe(found.left_out))
    if report is not None:  # last: if it cannot be written now, the groups are printed already
        write_report(
            report,
            groups,
            root=found.root,
            ids=ids,
            radius=radius,
            max_pixels=max_pixels,
            progress=show_progress,
        )
        typer.echo(f"{report} shows them", err=as_json)
    if failed or found.left_out[UNREADABLE]:
        raise typer.Exit(SOME_FAILED)


def _describe(
    groups: "list[Group]", ids: list[str], failed: "list[tuple[str, UnreadableImage]]", *, radius: int
) -> dict[str, Any]:
    return {
        "images": len(ids),
        "radius": radius,
        "groups": [
            [{"id": ids[row], "distance": distance} for row, distance in zip(*group, strict=True)] for group in groups
        ],
        "failed": [{"id": name, "error": str(error)} for name, error in failed],
    }


def _print(groups: "list[Group]", ids: list[str], failed: "list[tuple[str, UnreadableImage]]") -> None:
    from nsh.serving.commands.names import one_line

    for group in groups:
        for row, distance in zip(*group, strict=True):
            typer.echo(f"{distance:>5}  {one_line(ids[row])}")
        typer.echo("")
    members = sum(len(group.rows) for group in groups)
    typer.echo(f"{len(groups)} groups hold {members} of {len(ids)} images")
    for name, error in failed:
        typer.echo(f"{one_line(name)}: {error}", err=True)
