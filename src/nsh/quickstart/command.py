"""The command `nsh quickstart`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from nsh.serving.commands.health import DEFAULT_HOST, DEFAULT_PORT, Port


def quickstart(
    context: typer.Context,
    photos: Annotated[Path, typer.Argument(help="The folder of your photos; it is only read.", show_default=False)],
    port: Port = DEFAULT_PORT,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Stop when the index is ready.")] = False,
) -> None:
    """Make a search page of a folder of photos: learn codes, encode every photo, index the codes, serve the page.

    Run it in the project's folder. No photo needs a label, and none leaves the machine. Some hundred photos are the
    fewest that make sense.

    The steps are commands of their own. At the end you are told them, the time of each, and how to change the result:

    1. params.yaml gets the values of params/own-folder.yaml, and your folder as dataset.root.

    2. `dvc repro` learns from the photos, and exports the encoder of the first method at the most bits.

    3. `nsh encode` makes a code of every photo in the folder.

    4. `nsh index update` puts the codes into an index.

    5. `nsh serve` serves the page, on this machine only, until Ctrl-C.

    Stop it whenever you like: the same command goes on, and does nothing twice. After photos were added, changed or
    removed, the same command encodes what is new and updates the index.

    For example:

        nsh quickstart ~/photos
    """
    from nsh.project.paths import Project
    from nsh.quickstart.making import SearchPage, describe
    from nsh.quickstart.preparation import plan
    from nsh.quickstart.steps import Steps
    from nsh.serving.service.address import url_of
    from nsh.serving.service.server import check_address

    def run(words: list[str]) -> int | None:
        status: int | None = context.find_root().command.main(args=words, prog_name="nsh", standalone_mode=False)
        return status

    planned = plan(photos)
    if not no_serve:
        check_address(DEFAULT_HOST, port)  # before minutes of work
    typer.echo(planned.photos)
    steps = Steps(run, say=typer.echo)
    page = SearchPage(planned, steps, project=Project())
    page.make()
    serve = page.serve_words(port)
    typer.echo(describe(steps.done, serve=shlex.join(("nsh", *serve)), root=planned.root))
    if not no_serve:
        typer.echo(f"\nThe search page: {url_of(DEFAULT_HOST, port)} (Ctrl-C stops it)")
        steps.nsh(*serve)
