"""`nsh index export`: the items of an index for an engine that spans machines, or for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nsh.errors import ConfigError
from nsh.serving.engines.milvus_address import SCHEME


def _only_folder(path: Path) -> Path:
    """Refuse the URL of an engine where a folder is needed."""
    if str(path).startswith(SCHEME):
        raise ConfigError(
            "found a URL of Milvus for --index: this command needs the folder of an index; see nsh index export --help"
        )
    return path


Folder = Annotated[
    Path, typer.Option("--index", envvar="NSH_INDEX", help="Folder of the index.", callback=_only_folder)
]


class Form(StrEnum):
    """What an index can be exported to."""

    MILVUS = "milvus"
    LANCE = "lance"
    PARQUET = "parquet"


def export(
    target: Annotated[
        str,
        typer.Argument(
            help="milvus://HOST:PORT/COLLECTION, the folder of a Lance data set, or a Parquet file. It must not exist.",
            show_default=False,
        ),
    ],
    to: Annotated[Form, typer.Option(help="What to export to; each needs the extra of its name.", show_default=False)],
    folder: Folder,
) -> None:
    """Copy an index into a Milvus collection, a Lance data set or a Parquet file.

    Ids, packed codes, metadata and the identity of the encoder are copied, in the order of insertion. Items are read in
    blocks, so memory grows by the codes alone. The target is complete or not there; after an interruption, run the
    command again. The index must not change meanwhile.

    `nsh serve` and `nsh search` use a Milvus collection as they use an index: --index milvus://HOST:PORT/COLLECTION. A
    file of Milvus Lite is milvus:///FOLDER/FILE.db/COLLECTION.

    Examples:
    nsh index export milvus://10.0.0.1:19530/photos --to milvus --index index

    nsh index export codes.parquet --to parquet --index index
    """
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.index import Index

    opened = Index.open(folder, readonly=True)
    if to is Form.MILVUS:
        from nsh.serving.engines.milvus_export import export_to_milvus

        export_to_milvus(opened, target, progress=show_progress)
    else:
        from nsh.serving.engines.arrow_export import export_to_lance, export_to_parquet

        write = export_to_lance if to is Form.LANCE else export_to_parquet
        write(opened, Path(target), progress=show_progress)
    typer.echo(f"{target}: {len(opened)} items of {opened.bits} bits, of the encoder {opened.encoder_identity}")
