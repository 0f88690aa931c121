"""The command `nsh tune`."""

from typing import Annotated

import typer


def tune(
    method: Annotated[str, typer.Argument(help="A method of params.yaml, for example nsh_plus.", show_default=False)],
    bits: Annotated[int, typer.Option(min=1, max=512, help="Length of the codes.")] = 32,
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, with those of earlier searches.")] = 30,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds after which no trial begins.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="PARAMETER", help="Search this one; repeatable.")] = None,
) -> None:
    """Search for better values of a method's parameters, and write them as a profile.

    Run it in the project's folder; `make tune METHOD=nsh_plus` embeds the images before, if they are not.

    A number is searched from a quarter of its value in params.yaml to four times that, within its allowed range. The
    epochs, the number of images and choices of words stay as they are. The space is shown before the search begins.

    A fifth of the training images, at most 1000, are held out to judge: by mAP, or without labels by its estimate. The
    queries and the gallery of the split are not read, so that they can tell afterwards what was won. Trial 0 has the
    values of params.yaml.

    Stop it whenever you like: the same command goes on, and with more --trials it goes further. With other data, values
    or code it begins another study. Trials are runs in MLflow, below one run of the study.

    If a trial beats the values of params.yaml, also on held-out images that did not choose it, its values become the
    profile params/tuned-METHOD.yaml. Then:

        make repro PROFILE=tuned-nsh_plus

    For example:

        nsh tune nsh_plus --bits 64 --trials 50 --only learning_rate --only temperature
    """
    from nsh.config import read_params
    from nsh.project.paths import Pair
    from nsh.terminal import say
    from nsh.tuning.outcome import Outcome, describe_search
    from nsh.tuning.profile import read_base
    from nsh.tuning.search import open_search

    base, params = read_base(), read_params()
    search = open_search(params, Pair(method, bits), only=only or ())
    say(describe_search(search))
    outcome = Outcome(search, search.run(trials=trials, seconds=timeout, say=say))
    if outcome.trials:  # none, where no time was left to begin one
        say(f"{outcome.table()}\n{outcome.conclude(base)}")
