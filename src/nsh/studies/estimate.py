"""How well figures that need no labels rank methods -> a section of docs/results.md.

At each code length, Spearman's correlation of a figure with mAP@1000 over the methods of `make table`, of the first
seed. Trains nothing: methods that are not in the table are left out.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nsh.config import read_params
from nsh.core.metrics.estimate import Estimate, choose, estimate_map, find_related
from nsh.errors import DataError
from nsh.methods import METHODS
from nsh.project.embeddings import Embeddings
from nsh.project.projected import project_parts
from nsh.reports.markdown import markdown_table
from nsh.studies.command import make_call, open_parser, open_setting
from nsh.studies.document import made_with, write_section
from nsh.studies.protocol import K
from nsh.studies.rows import make_trials
from nsh.studies.setting import Setting, title_of
from nsh.studies.table import BITS, METRIC
from nsh.studies.trials import Result, read_results, select
from nsh.system.command import run_command
from nsh.terminal import show_progress

FEWEST = 3  # methods at a length, below which no correlation is said
OTHER_SHARES = (0.01, 0.1)  # of the gallery that is related to a query: nearer images, coarser groups

Figures = dict[str, float]


def main() -> None:
    """Correlate and write the section."""
    arguments, params = open_parser(__doc__).parse_args(), read_params()
    setting = open_setting(arguments, params)
    results = select(read_results(setting), make_trials(params, list(METHODS), bits=BITS, seeds=1))
    if not results:
        raise DataError("no method of the table is measured yet: run `make table` before")
    measure = prepare(setting)
    figures = [measure(result) for result in show_progress(results, desc="estimate", total=len(results))]
    text = estimate_markdown(results, figures, setting=arguments.setting)
    write_section(f"{arguments.setting}-estimate", text)
    print(text)


def prepare(setting: Setting) -> Callable[[Result], Figures]:
    """A function that measures a result: the estimate, its terms and simpler figures, by their names in the section."""
    embeddings = Embeddings(setting.project.embed)
    projected, whole = project_parts(embeddings), {part: embeddings.read(part) for part in ("query", "gallery")}
    rows = choose(len(projected["query"]))

    def relate(parts: Mapping[str, NDArray[np.float32]], **options: float) -> Callable[[Result], Estimate]:
        related = find_related(parts["query"][rows], parts["gallery"], **options)
        return lambda result: estimate_map((result.codes("query")[rows], result.codes("gallery")), related, k=K)

    chosen, unprojected = relate(projected), relate(whole)
    others = [(share, relate(projected, share=share)) for share in OTHER_SHARES]

    def measure_all(result: Result) -> Figures:
        estimate = chosen(result)
        return {
            "estimated mAP": estimate.value,
            "agreement alone": estimate.agreement,
            "tightness alone": estimate.tightness,
            "estimated mAP, embeddings not projected": unprojected(result).value,
            **{f"estimated mAP, the nearest {share:.0%} related": measure(result).value for share, measure in others},
            "bit balance": result.metrics["bit_balance"],
            "non-empty balls of radius 2": 1 - result.metrics["empty_ball_share"],
            "P@H≤2 (needs labels)": result.metrics["P_at_H2"],
        }

    return measure_all


def correlate(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's correlation; None of fewer than `FEWEST` numbers, or where all are equal."""
    from scipy.stats import spearmanr  # takes a second

    if len(first) < FEWEST or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return float(spearmanr(first, second).statistic)


def estimate_markdown(results: Sequence[Result], figures: Sequence[Figures], *, setting: str) -> str:
    """The section of docs/results.md, of results and the figures of each."""
    lengths = sorted({result.trial.bits for result in results})
    groups = [[row for row, result in enumerate(results) if result.trial.bits == bits] for bits in lengths]
    truth = [result.metrics[METRIC] for result in results]

    def cell(name: str, group: Sequence[int]) -> str:
        found = correlate([figures[row][name] for row in group], [truth[row] for row in group])
        return "" if found is None else f"{found:.2f}"

    header = ["correlation with mAP@1000", *(f"{bits} bits" for bits in lengths)]
    rows = [[name, *(cell(name, group) for group in groups)] for name in figures[0]]
    rows.append(["methods", *(str(len(group)) for group in groups)])
    return "\n\n".join(
        [
            f"## {title_of(setting)}: quality without labels",
            "How well figures rank the methods of the table: Spearman's correlation with mAP@1000, first seed; 1 is "
            "the same order. All but P@H≤2 need no labels. [Decision 7](decisions/0007-what-a-metric-means.md) "
            "defines the estimate; an empty cell is a figure that is the same for all methods, or too few methods.",
            markdown_table(header, rows),
            made_with(make_call("estimate", setting)),
        ]
    )


if __name__ == "__main__":
    run_command(main)
