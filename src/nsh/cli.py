"""The command `nsh`. `nsh --help` lists its subcommands.

A subcommand imports its package when it runs, so that `nsh` starts fast, and installs without extras offer what they
have. It parses arguments and prints; its package does the work.
"""

from pathlib import Path
from typing import Any

import typer
import typer.core

from nsh.commands.registry import registry
from nsh.commands.report import report
from nsh.commands.weights import weights
from nsh.errors import ConfigError
from nsh.quickstart.command import quickstart
from nsh.serving.commands.deploy import deploy, rollback
from nsh.serving.commands.duplicates import duplicates
from nsh.serving.commands.encode import encode
from nsh.serving.commands.health import health
from nsh.serving.commands.index import index
from nsh.serving.commands.info import info
from nsh.serving.commands.monitor import monitor
from nsh.serving.commands.search import search
from nsh.serving.commands.serve import serve
from nsh.serving.commands.sign import sign, verify
from nsh.system.command import run_command
from nsh.system.files import expand_home
from nsh.tuning.command import tune


class _Commands(typer.core.TyperGroup):
    """Expands ~ in arguments: a shell does not expand it in `--model=~/encoder.onnx`, other callers never do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_expand_home(word) for word in args])


def _expand_home(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{expand_home(value)}"


app = typer.Typer(
    name="nsh",
    cls=_Commands,
    help="Label-free binary codes for image retrieval: the commands besides the pipeline (`make repro`).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
params = typer.Typer(no_args_is_help=True, help="params.yaml.")
track = typer.Typer(no_args_is_help=True, help="Runs in MLflow.")
app.add_typer(params, name="params")
app.add_typer(track, name="track")
app.add_typer(registry, name="registry")
app.command("quickstart")(quickstart)
app.command("info")(info)
app.command("encode")(encode)
app.add_typer(index, name="index")
app.command("search")(search)
app.command("duplicates")(duplicates)
app.command("serve")(serve)
app.command("deploy")(deploy)
app.command("rollback")(rollback)
app.command("health")(health)
app.command("monitor")(monitor)
app.command("report")(report)
app.command("tune")(tune)
app.command("weights")(weights)
app.command("sign")(sign)
app.command("verify")(verify)

PROJECT = Path()  # every command runs in the project's folder
EXTRAS = {
    **dict.fromkeys(("onnxruntime", "faiss", "fastapi", "uvicorn"), "serve"),
    "mlflow": "ops",
    "optuna": "studies",
    "torch": "train",
    "ray": "ray",
    "fsspec": "remote",
    "pymilvus": "milvus",
    "milvus_lite": "milvus-lite",
    "lance": "lance",
    "pyarrow": "parquet",
}
"""Packages that need an extra, and the extra."""
BROUGHT_BY = {"yaml": "mlflow"}
"""A package whose import fails first, and the package that installs it."""


@app.callback()
def nsh(context: typer.Context) -> None:
    """Label-free binary codes for image retrieval: the commands besides the pipeline (`make repro`)."""
    context.obj = _from_registry


def _from_registry(reference: str, to: Path) -> Path:
    """Download a "models:/..." encoder for production commands, which must not import MLflow."""
    from nsh.tracking import download_encoder

    return download_encoder(reference, to=to, folder=PROJECT)


@app.command("times")
def times() -> None:
    """Show the time of each present stage's last run, slowest first."""
    from nsh.config import read_params
    from nsh.tracking import stage_times

    seconds = stage_times(PROJECT, read_params(PROJECT / "params.yaml"))
    if seconds:
        typer.echo(f"where the time went (last run of each stage; {sum(seconds.values()):.0f} s in all)")
    for stage, taken in seconds.items():
        typer.echo(f"{taken:8.1f} s  {stage}")


@app.command("committed")
def committed() -> None:
    """Show which results differ from git's, and where they begin to differ; `make repro` ends with it."""
    from nsh.tracking import compare_with_commit

    message = compare_with_commit(PROJECT)
    if message:
        typer.echo(message)


@app.command("card")
def card() -> None:
    """Write the model card of every encoder of the matrix, models/method-bits/README.md; `make repro` does too.

    It holds contract, figures, and the licences of images and weights, to be given away with the encoder.
    """
    from nsh.config import read_params
    from nsh.project.paths import Project, pairs_of
    from nsh.reports.card import write_card

    matrix = read_params(PROJECT / "params.yaml").matrix
    for pair in pairs_of(matrix.methods, matrix.bits):
        typer.echo(write_card(Project(PROJECT).of(pair)))


@params.command("check")
def params_check() -> None:
    """Report every mistake in params.yaml at once; `make repro` begins with it.

    Use it also if `dvc exp run -S` fails with a message of DVC's own.
    """
    from nsh.config import read_params

    params = read_params(PROJECT / "params.yaml")
    # DVC watches this folder for every data set, and says of a missing one only that it is missing.
    if not (PROJECT / params.dataset.root).exists():
        raise ConfigError(
            f"dataset.root in params.yaml is {str(params.dataset.root)!r}, and there is no such folder: "
            f"make it and put the files of {params.dataset.name} there (docs/data-sets.md), or name another"
        )
    matrix = params.matrix
    typer.echo(f"params.yaml has no mistake: {', '.join(matrix.methods)} at {', '.join(map(str, matrix.bits))} bits")


@params.command("defaults")
def params_defaults() -> None:
    """Write every method's parameters with their declared defaults into params.yaml, for example for a new method.

    Your own values under `methods` are overwritten; the rest of the file does not change.
    """
    from nsh.config.methods import write_defaults

    write_defaults(PROJECT / "params.yaml")
    typer.echo("params.yaml has every method's parameters with their defaults")


@track.command("sync")
def track_sync() -> None:
    """Record in MLflow the results that DVC restored from its cache, or that were made while MLflow did not answer.

    Every pair of method and bits in params.yaml whose results are on disk gets one run and one registered encoder. A
    second call adds nothing.
    """
    from nsh.config import read_params
    from nsh.tracking import sync

    for outcome in sync(PROJECT, read_params()):
        typer.echo(f"{outcome.key:<12} {outcome.done}{': ' if outcome.reason else ''}{outcome.reason}")


def main() -> None:
    """Entry point of the console script: an `NshError` is one sentence and exit code 2."""
    run_command(_run)


def _run() -> None:
    try:
        app()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        package = BROUGHT_BY.get(package, package)
        if package not in EXTRAS:
            raise
        raise ConfigError(f"this command needs {package}: pip install 'nsh[{EXTRAS[package]}]'") from error


if __name__ == "__main__":
    main()
