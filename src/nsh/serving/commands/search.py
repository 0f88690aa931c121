"""`nsh search`: the nearest items of an index to some images."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsh.core.limits import MAX_PIXELS
from nsh.serving.commands.encode import MaxPixels, Model

if TYPE_CHECKING:
    from nsh.serving.encoder import Outputs
    from nsh.serving.index import Engine, Filter, Hit, ScoredHit

SOME_FAILED = 1

INDEX = typer.Option(
    envvar="NSH_INDEX",
    metavar="FOLDER|URL",
    help="Folder of the index, or milvus://HOST:PORT/COLLECTION (extra milvus).",
    show_default=False,
)
IndexAddress = Annotated[str, INDEX]


def search(
    context: typer.Context,
    images: Annotated[list[Path], typer.Argument(help="Image files to search with.", show_default=False)],
    model: Model,
    index: IndexAddress,
    k: Annotated[int, typer.Option("-k", help="How many items to find for each image.", min=1)] = 10,
    radius: Annotated[
        int | None, typer.Option(min=0, help="Find all items within this many bits instead.", show_default=False)
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Only items whose id begins with this text.", show_default=False)
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=VALUE", help="Only items with this metadata value.", show_default=False),
    ] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Order the 1000 nearest items by the real values of the image's bits.")
    ] = False,
    bits: Annotated[
        int | None,
        typer.Option(
            min=1, help="Compare the first bits alone: a length of nested codes (nsh info).", show_default=False
        ),
    ] = None,
    max_pixels: MaxPixels = MAX_PIXELS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the items of an index that are nearest to some images.

    Prints the distance in bits and the id, nearest first; items at equal distances in the order of their addition.
    With --rerank, prints distance, score and id by falling score: bits of which the image is less sure count less.

    Examples:
    nsh search query.jpg --model encoder.onnx --index index -k 5

    nsh search query.jpg --model encoder.onnx --index index --radius 4 --where class=cat

    nsh search query.jpg --model encoder.onnx --index index --rerank

    nsh search query.jpg --model encoder.onnx --index index --bits 32

    Exit code: 0 done; 1 some images could not be decoded; 2 no search was made, and standard error says why.
    """
    from nsh.core.codes import check_length
    from nsh.errors import UnreadableImage
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.encoder import Encoder
    from nsh.serving.engines.opening import open_engine
    from nsh.serving.index.engine import searchable_lengths

    only = _filter(prefix, where)
    opened = open_engine(index, readonly=True)
    encoder = Encoder(find_model(model, from_registry=context.obj, progress=show_progress), max_pixels=max_pixels)
    lengths = searchable_lengths(opened, encoder.contract)
    check_length(bits or opened.bits, lengths)
    results = list(show_progress(encoder.run_each(images), desc="encode", total=len(images)))
    good = [result.first(opened.bits) for result in results if not isinstance(result, UnreadableImage)]
    find = _search_reranked if rerank else _search
    found = iter(find(opened, good, k=k, radius=radius, where=only, bits=bits))
    answers = [
        _failure(image, result) if isinstance(result, UnreadableImage) else _answer(image, next(found))
        for image, result in zip(images, results, strict=True)
    ]
    if as_json:
        typer.echo(json.dumps(answers, indent=2))
    else:
        _print(answers, headed=len(images) > 1)
    if len(good) < len(images):
        raise typer.Exit(SOME_FAILED)


def _search(
    index: "Engine", images: "list[Outputs]", *, k: int, radius: int | None, where: "Filter", bits: int | None
) -> "Sequence[list[Hit] | list[ScoredHit]]":
    import numpy as np

    from nsh.core.codes import code_bytes

    codes = np.array([image.code for image in images], np.uint8).reshape(-1, code_bytes(index.bits))
    if radius is None:
        return index.search(codes, k=k, where=where, bits=bits)
    return index.search_radius(codes, radius=radius, where=where, bits=bits)


def _search_reranked(
    index: "Engine", images: "list[Outputs]", *, k: int, radius: int | None, where: "Filter", bits: int | None
) -> "Sequence[list[Hit] | list[ScoredHit]]":
    import numpy as np

    logits = np.array([image.logit for image in images], np.float32).reshape(-1, index.bits)
    most = k if radius is None else max(1, len(index))  # all within the radius, as without re-ranking
    return index.search_reranked(logits, k=most, radius=radius, where=where, bits=bits)


def _filter(prefix: str | None, where: str | None) -> "Filter":
    from nsh.errors import ConfigError
    from nsh.serving.index import Filter

    column, equals, value = (where or "").partition("=")
    if where is not None and not (column and equals):
        raise ConfigError(f"found --where {where}: it is written column=value")
    return Filter(id_prefix=prefix, column=column or None, value=value if equals else None)


def _answer(image: Path, hits: "list[Hit] | list[ScoredHit]") -> dict[str, Any]:
    return {"image": str(image), "hits": [hit._asdict() for hit in hits]}


def _failure(image: Path, error: Exception) -> dict[str, Any]:
    return {"image": str(image), "error": str(error)}


def _print(answers: list[dict[str, Any]], *, headed: bool) -> None:
    from nsh.serving.commands.names import one_line

    for answer in answers:
        if "error" in answer:
            typer.echo(f"{answer['image']}: {answer['error']}", err=True)
            continue
        if headed:
            typer.echo(f"{answer['image']}:")
        for hit in answer["hits"]:
            described = "".join(f"  {name}={value}" for name, value in hit["metadata"].items())
            score = f"  {hit['score']:>10.5g}" if "score" in hit else ""
            typer.echo(f"{hit['distance']:>5}{score}  {one_line(hit['id'])}{described}")
