"""`nsh registry`: the registered encoders, and which of them is in production."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nsh.tracking import EncoderVersion

PROJECT = Path()  # every command runs in the project's folder
COLUMNS = ("model", "version", "mAP", "gallery", "split", "encoder", "gates", "aliases")

registry = typer.Typer(no_args_is_help=True, help="Registered encoders: list them, choose the champion.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@registry.command("list")
def list_all(as_json: AsJson = False) -> None:
    """Show every registered encoder: version, mAP and what it was measured on, gates, aliases.

    mAP can be compared only on one split, with one k. `est.` marks an estimate without labels, `trial` a version of a
    profile that sets registry.trial.
    """
    from nsh.terminal import align
    from nsh.tracking import list_versions

    versions = list_versions(PROJECT)
    if as_json:
        typer.echo(json.dumps([asdict(version) for version in versions], indent=2))
        return
    if not versions:
        typer.echo(
            "no encoder is registered: `make repro` registers what it measures, `nsh track sync` what is on disk"
        )
        return
    typer.echo(align([COLUMNS, *map(_row, versions)]))


def _row(version: "EncoderVersion") -> tuple[str, ...]:
    recorded, identity = version.recorded, version.tags.get("encoder_identity", "-")[:12]
    passed = version.tags.get("gates") == "passed"
    gates = "failed" if not passed else "trial" if recorded and recorded.trial else "passed"
    aliases = ", ".join(version.aliases) or "-"
    if recorded is None:
        return version.name, version.version, "-", "-", "-", identity, gates, aliases
    gallery, split = str(recorded.counts.get("gallery", "-")), recorded.split_sha256[:8] or "-"
    return version.name, version.version, recorded.shown, gallery, split, identity, gates, aliases


@registry.command()
def show(
    model: Annotated[
        str, typer.Argument(help="fashion-mnist-nsh-32 (its champion, else its challenger), .../3 or name@alias")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one encoder on a page: data, split, code, parameters, figures, parity, and who made it champion and why."""
    from nsh.tracking import describe

    page = describe(PROJECT, model)
    if as_json:
        typer.echo(json.dumps(page, indent=2))
        return
    for heading, rows in page.items():
        typer.echo(heading)
        width = max(map(len, rows), default=0)
        for name, value in rows.items():
            typer.echo(f"  {name:<{width}}  {value}")


@registry.command()
def promote(
    model: Annotated[
        str, typer.Argument(help="fashion-mnist-nsh-32 (its challenger), fashion-mnist-nsh-32/3 or name@alias")
    ],
    force: Annotated[str, typer.Option(metavar="REASON", help="Promote what the gate refuses; kept with it.")] = "",
) -> None:
    """Make an encoder the champion of its model.

    It is compared with the present champion, query by query, on the split and with the k of both. It is refused if its
    mAP is lower by more than 0.01, if the two were not measured alike, and if it is a trial.
    """
    from nsh.tracking import promote

    change = promote(PROJECT, model, force=force)
    if change.before == change.version:
        typer.echo(f"{change.name}: version {change.version} was champion already")
        return
    before = f"before: version {change.before}" if change.before else "it had none before"
    typer.echo(f"{change.name}: champion is now version {change.version} ({before})")
    if change.before:
        typer.echo(f"{change.gate}{f'; forced: {change.reason}' if change.reason else ''}")


@registry.command()
def rollback(model: Annotated[str, typer.Argument(help="fashion-mnist-nsh-32")]) -> None:
    """Make the former champion of a model its champion again; a second time, the one before that."""
    from nsh.tracking import rollback

    change = rollback(PROJECT, model)
    typer.echo(f"{change.name}: champion is version {change.version} again (before: version {change.before})")


@registry.command()
def pull(
    model: Annotated[str, typer.Argument(help="name@alias or name/version, as `nsh registry list` shows them")],
    out: Annotated[Path, typer.Option(help="File to write; an existing file is replaced atomically.")],
) -> None:
    """Download an encoder file from the registry, and check its digest.

    For example:

        nsh registry pull fashion-mnist-nsh-32@champion --out encoder.onnx
    """
    from nsh.system.files import sha256_file
    from nsh.tracking import download_encoder

    path = download_encoder(model, to=out, folder=PROJECT)
    typer.echo(f"{path}: sha256 {sha256_file(path)}")
