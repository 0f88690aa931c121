"""`nsh index`: an index made from folders of codes, changed, and described."""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsh.serving.commands.index_export import Folder, export
from nsh.serving.commands.index_update import update

if TYPE_CHECKING:
    from nsh.core.manifest import Codes
    from nsh.serving.index import Engine
    from nsh.serving.index.metadata_csv import MatchedMetadata

index = typer.Typer(no_args_is_help=True, help="An index of codes: build, change, inspect or export it.")
index.command("export")(export)
index.command("update")(update)

Anywhere = Annotated[
    str,
    typer.Option("--index", envvar="NSH_INDEX", metavar="FOLDER|URL", help="Folder, or milvus://… as of nsh serve."),
]
Sources = Annotated[list[Path], typer.Argument(help="Folders that `nsh encode` made.", show_default=False)]
Metadata = Annotated[
    Path | None,
    typer.Option(help="CSV file with a column id and any other columns; searches can filter by them."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@index.command("build")
def build(
    codes: Sources,
    folder: Folder,
    metadata: Metadata = None,
    bits: Annotated[
        int | None, typer.Option(min=1, help="Keep the first bits of nested codes alone.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an index of codes in a new folder; if it fails, no folder is left.

    With --bits it is an index of shorter codes, which the same encoder searches and adds to.

    Examples:
    nsh index build codes --index index --metadata labels.csv

    nsh index build codes --index short-index --bits 32
    """
    from nsh.errors import CodesError
    from nsh.serving.commands.codes import read_codes_of_one_encoder
    from nsh.serving.index import Index
    from nsh.system.folders import atomic_folder, is_empty

    if folder.exists() and not (folder.is_dir() and is_empty(folder)):
        raise CodesError(f"{folder} is not empty: name a new folder, or add to the index there with `nsh index add`")
    sources = read_codes_of_one_encoder(codes)
    header = sources[0].header
    with atomic_folder(folder) as partial:
        made = Index.create(partial, bits=bits or header["bits"], encoder_identity=header["encoder_identity"])
        _, joined = _add(made, sources, metadata=metadata)
        made.close()
    _print(Index.open(folder, readonly=True), as_json=as_json, joined=joined)


@index.command("add")
def add(codes: Sources, folder: Anywhere, metadata: Metadata = None, as_json: AsJson = False) -> None:
    """Add folders of codes, all or none. An existing id gets its new code.

    Codes of another encoder are refused. Running searches are not disturbed.

    Example:
    nsh index add more-codes --index index
    """
    from nsh.serving.commands.codes import read_codes_of_one_encoder
    from nsh.serving.engines.opening import open_engine

    changed = open_engine(folder)
    sources = read_codes_of_one_encoder(codes)
    added, joined = _add(changed, sources, metadata=metadata)
    given = sum(len(source.ids) for source in sources)
    if as_json:
        counts = {"added": added, "updated": given - added}
        typer.echo(json.dumps({**counts, **_describe(changed), **_describe_join(joined)}, indent=2))
        return
    typer.echo(f"{folder}: {added} added, {given - added} updated, {len(changed)} there now")
    if joined is not None:
        typer.echo(f"{metadata}: {joined.describe()}")


@index.command("remove")
def remove(
    ids: Annotated[
        list[str], typer.Argument(help="Ids; - reads them from standard input, one a line.", show_default=False)
    ],
    folder: Anywhere,
    as_json: AsJson = False,
) -> None:
    """Remove items, all or none of those named.

    Example:
    nsh index remove holiday/0001.jpg holiday/0002.jpg --index index
    """
    from nsh.core.names import read_list
    from nsh.serving.commands.terminal import standard_input
    from nsh.serving.engines.opening import open_engine

    names = [name for name in ids if name != "-"]
    if "-" in ids:
        names += read_list(standard_input().read())
    changed = open_engine(folder)
    removed = changed.remove([_find(changed, name) for name in names])
    if as_json:
        typer.echo(json.dumps({"removed": removed, **_describe(changed)}, indent=2))
    else:
        typer.echo(f"{folder}: {removed} removed, {len(changed)} there now")


@index.command("info")
def info(
    folder: Annotated[str, typer.Argument(metavar="FOLDER|URL", help="Folder, or milvus://… as of nsh serve.")],
    check: Annotated[bool, typer.Option("--check", help="Read all of it, and report damage anywhere.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an index holds. Every code is compared with its checksum.

    --check reads ids, metadata and every page of the file too: a minute for 10 million items. Writers wait for it.

    If the folder can be written, what a killed process left half changed is rolled back.

    Example:
    nsh index info index --check
    """
    from nsh.errors import ConfigError
    from nsh.serving.engines.opening import open_engine
    from nsh.serving.index import Index

    shown = open_engine(folder, readonly=True)
    if check:
        if not isinstance(shown, Index):
            raise ConfigError(f"--check reads the index in a folder, found {folder}: its engine checks it")
        shown.check()
    _print(shown, as_json=as_json)


@index.command("upgrade")
def upgrade(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of the index.")],
    encoder: Annotated[str, typer.Option(help="The encoder that made the codes: as --model of nsh encode.")],
    as_json: AsJson = False,
) -> None:
    """Convert an index of an older version of nsh; the old one stays until the new one is complete.

    Stop services that use the index before. An approximate index becomes an exact one. Its codes stay those of the old
    encoder and its pixels: an encoder of another identity cannot be used with them.

    Example:
    nsh index upgrade index --encoder encoder.onnx
    """
    from nsh.core.identity import identity_of_file
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.index import Index
    from nsh.serving.index.upgrade import upgrade as convert
    from nsh.system.files import sha256_file

    path = find_model(encoder, from_registry=context.obj, progress=show_progress)
    identity = identity_of_file(path.read_bytes(), name=str(path))
    convert(folder, encoder_sha256=sha256_file(path), encoder_identity=identity)
    _print(Index.open(folder, readonly=True), as_json=as_json)


def _add(to: "Engine", sources: "list[Codes]", *, metadata: Path | None) -> "tuple[int, MatchedMetadata | None]":
    """Add the codes, cut to the index's length; return how many of the ids are new, and their metadata."""
    from nsh.serving.commands.codes import codes_for
    from nsh.serving.index.metadata_csv import read_metadata

    ids = [name for source in sources for name in source.ids]
    codes, identity = codes_for(to, sources), sources[0].header["encoder_identity"]
    joined = None if metadata is None else read_metadata(metadata, ids)
    items = None if joined is None else joined.items
    return to.add(ids, codes, metadata=items, encoder_identity=identity), joined


def _find(index: "Engine", name: str) -> str:
    """The id in the index that a name means; the name itself if there is none."""
    from nsh.core.names import spellings
    from nsh.errors import UnknownItem

    for spelling in spellings(name):
        with suppress(UnknownItem):
            index.code_of(spelling)
            return spelling
    return name


def _describe_join(joined: "MatchedMetadata | None") -> dict[str, int]:
    if joined is None:
        return {}
    return {"items_without_line": len(joined.without_line), "lines_without_item": len(joined.unmatched)}


def _describe(shown: "Engine") -> dict[str, Any]:
    return {
        "items": len(shown),
        "bits": shown.bits,
        "encoder_identity": shown.encoder_identity,
        "version": shown.version,
        "metadata": shown.columns,
    }


def _print(shown: "Engine", *, as_json: bool, joined: "MatchedMetadata | None" = None) -> None:
    if as_json:
        typer.echo(json.dumps({**_describe(shown), **_describe_join(joined)}, indent=2))
        return
    version = "" if shown.version is None else f", version {shown.version}"
    typer.echo(f"items      {len(shown)}{version}")
    typer.echo(f"codes      {shown.bits} bits, of the encoder {shown.encoder_identity}")
    typer.echo(f"metadata   {', '.join(shown.columns) or 'none'}")
    if joined is not None:
        typer.echo(f"joined     {joined.describe()}")
