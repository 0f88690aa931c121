"""`nsh index update`: an index that holds exactly the codes of folders, also after these have changed."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nsh.serving.commands.index_export import Folder


def update(
    codes: Annotated[list[Path], typer.Argument(help="Folders that `nsh encode` made.", show_default=False)],
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make an index hold exactly the codes of these folders, as after photos came, changed or went.

    Items are added, updated and removed; metadata of the others stay. An index that is not there is made. Codes of
    another encoder are refused. Running services follow the change.

    Example:
    nsh encode photos --model encoder.onnx --out codes && nsh index update codes --index index
    """
    from nsh.serving.commands.codes import codes_for, read_codes_of_one_encoder
    from nsh.serving.index import Index
    from nsh.serving.index.following import follow
    from nsh.system.folders import atomic_folder, is_empty

    sources = read_codes_of_one_encoder(codes)
    header = sources[0].header
    if not folder.exists() or (folder.is_dir() and is_empty(folder)):
        with atomic_folder(folder) as partial:
            Index.create(partial, bits=header["bits"], encoder_identity=header["encoder_identity"]).close()
    changed = Index.open(folder)
    ids = [name for source in sources for name in source.ids]
    counts = follow(changed, ids, codes_for(changed, sources), encoder_identity=header["encoder_identity"])
    if as_json:
        typer.echo(json.dumps({**counts._asdict(), "items": len(changed)}, indent=2))
    else:
        typer.echo(
            f"{folder}: {counts.added} added, {counts.updated} updated, {counts.removed} removed, "
            f"{len(changed)} there now"
        )
