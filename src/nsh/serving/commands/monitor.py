"""`nsh monitor`: whether recent images differ from those that an encoder was made for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from nsh.core.limits import MAX_PIXELS
from nsh.serving.commands.encode import Excluded, MaxPixels, Model

if TYPE_CHECKING:
    from nsh.core.reference import ReferenceProfile, Tally
    from nsh.serving.drift_report import Unusual
    from nsh.serving.encoder import Encoder

DRIFT = 1


class _Recent(NamedTuple):
    """Counts of recent codes, and the most unusual images where there are images."""

    counts: "Tally"
    unusual: "list[Unusual]"


def monitor(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            help="Recent images: a folder of them, a folder of their codes, or the address of a running service, for "
            "the last 200 images that it was searched with.",
            show_default=False,
        ),
    ],
    model: Model,
    report: Annotated[
        Path | None, typer.Option(help="HTML file to write, with charts and example images.", show_default=False)
    ] = None,
    exclude: Excluded = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell whether recent images differ from those that an encoder was made for.

    Their codes are compared with the reference profile in the encoder file: the share of ones of each bit, and the
    distances to the nearest of some gallery images. Without any change, 1 of 1,000 comparisons is an alarm. At least
    50 images are needed. Images that cannot be decoded are left out.

    For example:

        nsh monitor http://127.0.0.1:8000 --model encoder.onnx --report drift.html
        nsh monitor photos/new --model encoder.onnx --report drift.html

    Exit code: 0 no drift found; 1 drift; 2 nothing was compared.
    """
    from nsh.core.drift import compare
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.report_file import try_report
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.drift_report import describe, write_report
    from nsh.serving.encoder import Encoder
    from nsh.serving.recent import require_reference

    if report is not None:
        try_report(report)
    encoder = Encoder(find_model(model, from_registry=context.obj, progress=show_progress), max_pixels=max_pixels)
    reference = require_reference(encoder)
    recent = _find_recent(source, encoder, reference, exclude=exclude or ())
    drift = compare(recent.counts, reference)
    if as_json:
        figures = drift._asdict() | {"p_value": drift.p_value, "alarm": drift.alarm}
        typer.echo(json.dumps(figures | {"empty_balls": recent.counts.empty_balls}, indent=2))
    else:
        typer.echo(describe(drift))
    if report is not None:
        write_report(
            report,
            drift,
            recent=recent.counts,
            reference=reference,
            source=source,
            unusual=recent.unusual,
            max_pixels=max_pixels,
        )
        typer.echo(f"{report} shows it", err=as_json)
    if drift.alarm:
        raise typer.Exit(DRIFT)


def _find_recent(source: str, encoder: "Encoder", reference: "ReferenceProfile", *, exclude: Sequence[str]) -> _Recent:
    from nsh.core.manifest import HEADER
    from nsh.core.reference import tally
    from nsh.serving.recent import ask_service, read_recent_codes

    if source.startswith(("http://", "https://")):
        return _Recent(ask_service(source, encoder), [])
    if not (Path(source) / HEADER).is_file():
        return _encode(source, encoder, reference, exclude=exclude)
    codes = read_recent_codes(Path(source), encoder)
    return _Recent(tally(codes, reference.anchors, bits=reference.bits), [])


def _encode(source: str, encoder: "Encoder", reference: "ReferenceProfile", *, exclude: Sequence[str]) -> _Recent:
    import numpy as np

    from nsh.core.reference import nearest_anchors, tally
    from nsh.errors import DataError, UnreadableImage
    from nsh.serving.arguments import list_images
    from nsh.serving.commands.names import one_line
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.drift_report import Unusual

    found = list_images([source], exclude=exclude, progress=show_progress)
    results = encoder.encode_each(found.path(name) for name in found.ids)
    names, codes = [], []
    for name, result in zip(found.ids, show_progress(results, desc="encode", total=len(found.ids)), strict=True):
        if isinstance(result, UnreadableImage):
            typer.echo(f"{one_line(name)}: {result}", err=True)
        else:
            names.append(name)
            codes.append(result)
    if not codes:
        raise DataError(f"none of {len(found.ids)} images in {source} could be decoded: look at the messages above")
    stacked = np.stack(codes)
    distances = nearest_anchors(stacked, reference.anchors)
    furthest = np.argsort(-distances, kind="stable")
    unusual = [Unusual(found.path(names[row]), names[row], int(distances[row])) for row in furthest]
    return _Recent(tally(stacked, reference.anchors, bits=reference.bits), unusual)
