"""`nsh encode`: images into a folder of codes."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsh.core.limits import MAX_PIXELS
from nsh.errors import ConfigError

if TYPE_CHECKING:
    from nsh.serving.bulk import Summary
    from nsh.serving.encoder import Encoder

SOME_FAILED = 1
SHOWN_ERRORS = 10

MODEL = typer.Option(
    envvar="NSH_MODEL",
    help="The encoder: a file, https://host/encoder.onnx#sha256=DIGEST, or models:/name@alias (extra ops).",
)
Model = Annotated[str, MODEL]
Excluded = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Leave out names at any depth ('*.gif', thumbs) or paths below the root ('raw/**'); can be repeated.",
        show_default=False,
    ),
]

Ray = Annotated[
    str | None,
    typer.Option(
        metavar="local|HOST:PORT",
        help="Encode on all machines of a Ray cluster, which share images and codes; local: here (extra ray).",
    ),
]
MaxPixels = Annotated[
    int, typer.Option(min=1, help="Width x height of an image; a larger one is not decoded (4 to 8 bytes a pixel).")
]


def encode(
    context: typer.Context,
    images: Annotated[
        list[str],
        typer.Argument(
            help="Files, folders, addresses (s3://bucket/photos, extra remote), archives (.tar, .parquet); - reads a "
            "list from standard input, one a line or as find -print0 writes it.",
            show_default=False,
        ),
    ],
    model: Model,
    out: Annotated[Path, typer.Option(help="Folder for the codes: new, or made before with the same encoder.")],
    root: Annotated[
        str | None,
        typer.Option(
            help="Folder or address that ids are relative to; if not given, the only one that is an argument, else the "
            "current folder; ids of listed addresses are then whole addresses."
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(metavar="i/N", help="Encode the i-th of N parts; run each part on any machine.")
    ] = "1/1",
    ray: Ray = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N, or auto: CUDA if available.")] = "cpu",
    allow_cpu: Annotated[bool, typer.Option("--allow-cpu", help="Use the CPU if CUDA is not available.")] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Cores to use, with --ray those of each actor; if not given, all, with --ray 4."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images in a batch of each thread.")] = 16,
    exclude: Excluded = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Turn images into packed binary codes.

    The folder gets shards of codes (.npy), a manifest for each (.jsonl: id, path, sha256, status, error), a header, and
    errors.jsonl if an image could not be decoded. Codes depend on image and encoder alone. Run the same command again
    to continue after an interruption, or to update the codes: it reads every file and encodes new and changed images.
    No file is written beside the images. With --ray, machines of a Ray cluster make the same folder (docs/scale.md).

    Hidden files and folders, and those of other programs (@eaDir, __MACOSX, ...), are left out and counted.

    Addresses are read with fsspec; credentials come from the environment. TAR archives are read as webdataset writes
    them, an id is a member's name; Parquet files (extra parquet) need a column of bytes, an id is in the column id.

    For example:

        nsh encode photos --model encoder.onnx --out codes
        nsh encode s3://bucket/photos --model encoder.onnx --out codes
        nsh encode shards/*.tar --model encoder.onnx --out codes
        nsh encode photos --model encoder.onnx --out codes --shard 2/4
        nsh encode photos --model encoder.onnx --out codes --ray 10.0.0.1:6379
        find /data -name '*.jpg' -print0 | nsh encode - --root /data --model encoder.onnx --out codes

    Exit code: 0 all encoded; 1 some images could not be decoded or some folders not be read, the others are encoded; 2
    standard error says why there are no codes (bad arguments, no image, no image that can be decoded).
    """
    from nsh.core.image_files import UNREADABLE, describe
    from nsh.serving.arguments import LIST, find_model
    from nsh.serving.bulk import Share
    from nsh.serving.commands.terminal import show_progress, standard_input
    from nsh.serving.encoder import Encoder
    from nsh.serving.inputs import find_images

    share = Share.parse(shard)
    encoder = Encoder(
        find_model(model, from_registry=context.obj, progress=show_progress),
        threads=threads,
        device=device,
        allow_cpu=allow_cpu,
        max_pixels=max_pixels,
    )
    stdin = standard_input() if LIST in images else None
    with encoding_engine(ray, encoder, threads) as encode_images:
        found = find_images(images, root=root, exclude=exclude or (), stdin=stdin, progress=show_progress)
        summary = encode_images(encoder, found, out=out, share=share, batch=batch, progress=show_progress)
    if as_json:
        typer.echo(json.dumps(_describe(summary, out, encoder, left_out=found.left_out), indent=2))
    else:
        _print(summary, out, encoder, left_out=describe(found.left_out) if found.left_out else "")
    if summary.errors or found.left_out[UNREADABLE]:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def encoding_engine(ray: str | None, encoder: "Encoder", threads: int | None) -> Iterator[Callable[..., "Summary"]]:
    """The function that encodes: in this process, or on the machines of a Ray cluster."""
    if ray is None:
        from nsh.serving.bulk import encode_files

        yield encode_files
        return
    from nsh.serving.engines.ray_cluster import connected
    from nsh.serving.engines.ray_encoding import encode_on_ray

    if encoder.device != "cpu":
        raise ConfigError(f"found device {encoder.device}: with --ray only cpu is allowed, on GPUs use --shard i/N")
    with connected(ray):
        yield partial(encode_on_ray, threads=threads)


def _describe(summary: "Summary", out: Path, encoder: "Encoder", *, left_out: Mapping[str, int]) -> dict[str, Any]:
    return {
        "out": str(out),
        "images": summary.images,
        "encoded": summary.encoded,
        "failed": len(summary.errors),
        "kept": summary.kept,
        "new": summary.new,
        "changed": summary.changed,
        "gone": summary.gone,
        "complete": summary.complete,
        "left_out": dict(left_out),
        "bits": encoder.contract.bits,
        "encoder_identity": encoder.identity,
        "device": encoder.device,
    }


def _print(summary: "Summary", out: Path, encoder: "Encoder", *, left_out: str) -> None:
    from nsh.serving.bulk import ERRORS, quote

    typer.echo(f"{out}: {summary.encoded} codes of {encoder.contract.bits} bits{_describe_change(summary)}")
    if left_out:
        typer.echo(left_out)
    if not summary.complete:
        typer.echo("other shards are still missing: the folder can be read once every part is done")
    if not summary.errors:
        return
    typer.echo(f"{len(summary.errors)} of {summary.images} images could not be decoded:", err=True)
    for entry in summary.errors[:SHOWN_ERRORS]:
        typer.echo(f"  {quote(entry.id)}: {entry.error}", err=True)
    if len(summary.errors) > SHOWN_ERRORS:
        where = out / ERRORS if summary.complete else f"the manifests in {out}"
        typer.echo(f"  and {len(summary.errors) - SHOWN_ERRORS} more: see {where}", err=True)


def _describe_change(summary: "Summary") -> str:
    """How the images of an existing folder changed; empty for a new folder."""
    if summary.new == summary.images and not summary.gone:
        return ""
    counts = {name: getattr(summary, name) for name in ("kept", "new", "changed", "gone")}
    return "; images: " + ", ".join(f"{count} {name}" for name, count in counts.items())
