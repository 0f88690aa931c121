"""`nsh report`: the present results beside another revision's, for a pull request."""

from pathlib import Path
from typing import Annotated

import typer

PROJECT = Path()  # every command runs in the project's folder


def report(
    against: Annotated[str, typer.Option(help="Branch, tag or commit whose metrics are committed.")] = "main",
    out: Annotated[Path | None, typer.Option(help="File to write, new or a report; without it: printed.")] = None,
) -> None:
    """Compare the results on disk with those of another revision, as Markdown for a pull request.

    It has the figures with intervals, charts, what changed in parameters and data, and the time of the stages.
    """
    from nsh.config import read_params
    from nsh.serving.commands.report_file import try_report
    from nsh.system.files import write_text
    from nsh.tracking import HEADING, compare_with_revision

    if out is not None:
        try_report(out, kind="report of this command", beginning=HEADING)
    text = compare_with_revision(PROJECT, read_params(PROJECT / "params.yaml"), revision=against)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"{out}: the results beside those of {against}")
