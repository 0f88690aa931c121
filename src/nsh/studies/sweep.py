"""The paper's figure 5, and what it left out: temperatures, m and short codes -> docs/results.md and docs/results/.

At 32 bits one parameter of nsh is varied at a time, from params.yaml's values; the short codes are those of several
methods. Whatever the record has is drawn; what nobody has measured is marked as missing.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from nsh.config import Params, read_params
from nsh.reports.markdown import markdown_table
from nsh.reports.pictures import to_png
from nsh.reports.summary import Summary
from nsh.studies.command import (
    make_call,
    open_measuring_parser,
    open_setting,
    raise_failures,
    run,
    summarise_groups,
)
from nsh.studies.document import made_with, mean_text, write_picture, write_section
from nsh.studies.pictures import Panel, draw_sweep
from nsh.studies.record import Line, record_results
from nsh.studies.setting import title_of
from nsh.studies.trials import Trial, make_trial
from nsh.system.command import run_command

BITS = 32
METRIC = "mAP_at_1000"
SHORT = {"bits": (4, 8, 12)}
SHORT_METHODS = ("nsh", "nsh_plus", "itq", "agh", "cibhash")
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "tau_s": (0.03125, 0.05, 0.1, 0.25, 0.5, "d_b"),
    "tau_c": (0.05, 0.1, 0.2, 0.3, 0.5, 1.0),
    "m": (1, 2, 3, 5, 8),
}
TITLES = {
    "bits": "Short codes: bits",
    "tau_s": "Softsort: tau_s",
    "tau_c": "Contrast: tau_c",
    "m": "Positives: m",
}


class Point(NamedTuple):
    """A method with one value of what is varied, "bits" or a parameter."""

    varied: str
    method: str
    value: Any


Found = Mapping[Point, Summary[Line]]  # without what is not measured


def main() -> None:
    """Measure, draw and write the section."""
    arguments, params = open_measuring_parser(__doc__).parse_args(), read_params()
    seeds = arguments.seeds or 1
    groups, name = make_groups(params, seeds), f"{arguments.setting}-sweep"
    setting = open_setting(arguments, params)
    failures = run([trial for trials in groups.values() for trial in trials], setting, arguments, params)
    lines = record_results(setting, params)
    found, seeds = summarise_groups(partial(make_groups, params), lines, setting, seeds=seeds)
    picture = write_picture(name, to_png(draw_sweep(make_panels(found, params), label="mAP@1000")), caption=_caption())
    text = sweep_markdown(found, setting=arguments.setting, seeds=seeds, picture=picture)
    write_section(name, text)
    print(text)
    raise_failures(failures)


def make_groups(params: Params, seeds: int) -> dict[Point, list[Trial]]:
    """The trials of every point, one a seed."""
    groups = {}
    for point in _points():
        short = point.varied in SHORT
        groups[point] = [
            make_trial(
                params,
                point.method,
                bits=point.value if short else BITS,
                seed=seed,
                changed={} if short else {point.varied: point.value},
            )
            for seed in range(seeds)
        ]
    return groups


def _points() -> list[Point]:
    """All of them, panel by panel."""
    short = [Point("bits", method, bits) for method in SHORT_METHODS for bits in SHORT["bits"]]
    return short + [Point(name, "nsh", value) for name, values in PARAMETERS.items() for value in values]


def make_panels(found: Found, params: Params) -> list[Panel]:
    """What the picture shows."""
    return [
        Panel(
            title=TITLES[varied],
            values=[_write(value) for value in values],
            lines={
                method: [_height(found.get(Point(varied, method, value))) for value in values]
                for method in _methods(varied)
            },
            chosen=_chosen(params, varied, values),
        )
        for varied, values in (SHORT | PARAMETERS).items()
    ]


def sweep_markdown(found: Found, *, setting: str, seeds: int, picture: str) -> str:
    """The section of docs/results.md."""
    parts = [
        f"## {title_of(setting)}: temperatures, positives and short codes",
        f"mAP@1000 over {seeds} training seed(s), on the images of the table, as in the paper's figure 5, which prints "
        f"no numbers; it has no tau_s. nsh at {BITS} bits with params.yaml's values but for the one that is varied; "
        "short codes with params.yaml's values for all methods. The figures are of the queries: they show what the "
        "values do, and nothing is to be chosen by them.",
        picture,
        *(_table(found, varied, seeds=seeds) for varied in TITLES),
        made_with(make_call("sweep", setting, seeds=seeds)),
    ]
    return "\n\n".join(parts)


def _table(found: Found, varied: str, *, seeds: int) -> str:
    values = (SHORT | PARAMETERS)[varied]
    rows = [
        [method, *(mean_text(found.get(Point(varied, method, value)), METRIC, seeds=seeds) for value in values)]
        for method in _methods(varied)
    ]
    return markdown_table([TITLES[varied], *(_write(value) for value in values)], rows)


def _methods(varied: str) -> tuple[str, ...]:
    return SHORT_METHODS if varied in SHORT else ("nsh",)


def _height(summary: Summary[Line] | None) -> tuple[float, float] | None:
    return None if summary is None else (summary.mean(METRIC), summary.deviation(METRIC) or 0.0)


def _chosen(params: Params, varied: str, values: tuple[Any, ...]) -> int | None:
    """Where the value of params.yaml stands among those of a parameter."""
    now = params.methods.model_dump()["nsh"].get(varied)
    return values.index(now) if now in values else None


def _caption() -> str:
    return f"mAP@1000 of short codes, and of nsh at {BITS} bits by one parameter (dotted: params.yaml's value)"


def _write(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


if __name__ == "__main__":
    run_command(main)
