"""The table: every method at 16, 32 and 64 bits, several seeds, in one setting -> docs/results.md and docs/results/.

Whatever is measured goes into the record, docs/results/<setting>.csv, and the table shows all of it, also what others
have measured elsewhere. Trials that are asked for are measured here, unless they were before. Short codes are shown if
they are asked for. What nobody has measured is marked as missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsh.config import read_params
from nsh.config.declarations import read_declaration
from nsh.data.split import read_header
from nsh.methods import METHODS
from nsh.project.embeddings import Embeddings
from nsh.reports import paper
from nsh.reports.markdown import markdown_table
from nsh.reports.summary import Summaries, Summary, can_compare, compare_with_rivals, difference, find_best
from nsh.studies.ceiling import Ceiling, measure_ceiling
from nsh.studies.command import make_call, open_measuring_parser, open_setting, raise_failures, run
from nsh.studies.document import MISSING, made_with, mean_text, write_section
from nsh.studies.record import Line, record_results
from nsh.studies.rows import ROWS, choose_lines, make_controls, make_trials
from nsh.studies.setting import Setting, data_set_of, title_of
from nsh.system.command import run_command
from nsh.terminal import show_progress

BITS = (16, 32, 64)
SEEDS = {"cifar10": 5, "fashion-mnist": 3}  # by data set
METRIC = "mAP_at_1000"
MEANINGS = {"collapsed": "the codes collapsed", "vanished": "the critic vanished"}  # of `nsh.studies.record.FAILURES`
MARK = "†"  # beside a method whose setting is not its paper's


@dataclass(frozen=True)
class Table:
    """What was measured in a setting, and what it stands beside."""

    setting: str
    rows: Sequence[str]  # methods and controls
    bits: Sequence[int]  # the columns
    seeds: int  # that each should have
    summaries: Summaries  # missing where nothing is measured
    ceiling: Ceiling


def main() -> None:
    """Measure what is asked for and write the table of all there is."""
    parser = open_measuring_parser(__doc__)
    parser.add_argument("--methods", nargs="*", help="measure these only (default: all; nothing: only write the table)")
    parser.add_argument("--bits", nargs="+", type=int, help=f"measure these only (default: {BITS})")
    arguments, params = parser.parse_args(), read_params()
    seeds = arguments.seeds or SEEDS[data_set_of(arguments.setting)]
    asked = arguments.bits or BITS
    methods = list(METHODS) if arguments.methods is None else arguments.methods
    setting = open_setting(arguments, params)
    trials = make_trials(params, methods, bits=asked, seeds=seeds)
    trials += make_controls(params, methods, bits=asked, seeds=seeds)
    failures = run(trials, setting, arguments, params)
    named = choose_lines(record_results(setting, params), params, setting, asked=asked)
    ceiling = measure_ceiling(setting, progress=show_progress)
    table = summarise(setting.name, named, asked=asked, seeds=seeds, ceiling=ceiling)
    text = table_markdown(table, heading=describe(setting))
    write_section(setting.name, text)
    print(text)
    raise_failures(failures)


def summarise(
    setting: str,
    named: Sequence[tuple[str, Line]],
    *,
    asked: Sequence[int] = (),
    seeds: int = 1,
    ceiling: Ceiling,
) -> Table:
    """Group results by row and code length.

    Args:
        setting: its name.
        named: what is measured, each with its row; all of it is shown.
        asked: code lengths that have a column, measured or not, as `BITS` have.
        seeds: that were asked for; each pair should have those, the setting's default and what any other pair has.
        ceiling: figures of the float embedding, from `measure_ceiling`.
    """
    groups: dict[tuple[str, int], list[Line]] = {}
    for row, line in named:
        groups.setdefault((row, line.bits), []).append(line)
    summaries = {key: Summary(group) for key, group in groups.items()}
    bits = sorted({*BITS, *asked, *(length for _, length in groups)})
    most = max([seeds, SEEDS[data_set_of(setting)], *(summary.seeds for summary in summaries.values())])
    return Table(setting, ROWS, bits, most, summaries, ceiling)


def describe(setting: Setting) -> str:
    """What the table is of."""
    counts, embed = read_header(setting.project.split)["counts"], Embeddings(setting.project.embed).header
    return (
        f"{counts['query']:,} queries, a gallery of {counts['gallery']:,}, {counts['train']:,} of them to learn from "
        f"without labels, with {embed['views']} augmented views each; {embed['backbone']} at {embed['image_size']} px, "
        f"frozen (weights: {embed['weights']})."
    )


def table_markdown(table: Table, *, heading: str) -> str:
    """The section of docs/results.md."""
    parts = [
        f"## {title_of(table.setting)}",
        f"{heading} Mean ± standard deviation over {table.seeds} training seed(s), parameters of params.yaml for all "
        "code lengths. mAP@1000 divides by the hits among the first 1,000. The best of each length is bold; **≈** "
        "marks methods whose distance to it is no larger than Student's t at 97.5 % allows (in standard errors of the "
        "paired difference over queries, taken in blocks, and over the seeds where there are several).",
        _main_table(table),
        _unmeasured(table),
        _paper_note(table),
        _departures(table),
        _failures(table),
        "mAP@1000 re-ranked by the query's real values, P@1000, precision within Hamming radius 2, and seconds of "
        "training on one thread, with other trials beside:",
        _more_table(table),
        _comparison(table),
        made_with(_call(table)),
    ]
    return "\n\n".join(part for part in parts if part)


def _call(table: Table) -> str:
    """The command that makes the section again."""
    usual = SEEDS[data_set_of(table.setting)]
    call = make_call("table", table.setting, seeds=None if table.seeds == usual else table.seeds)
    return call if tuple(table.bits) == BITS else f'{call} BITS="{" ".join(map(str, table.bits))}"'


def _main_table(table: Table) -> str:
    """MAP of every method, best first, the paper's numbers beside it."""
    printed = paper.printed(data_set_of(table.setting), METRIC, table="T1")
    header, rows = ["mAP@1000", *(f"{bits} bits" for bits in table.bits)], []
    for name, figures in table.ceiling.items():
        rows.append([f"float embedding, {name}", *[f"{figures[METRIC]:.3f}"] * len(table.bits)])
    methods = _best_first(table)
    rows += [[_marked(method), *(_mean(table, method, bits) for bits in table.bits)] for method in methods]
    if printed:
        header += [f"paper: {bits}" for bits in table.bits]
        theirs = [*({} for _ in table.ceiling), *(printed.get(paper.METHODS.get(method, ""), {}) for method in methods)]
        rows = [row + _printed(values, table.bits) for row, values in zip(rows, theirs, strict=True)]
    return markdown_table(header, rows)


def _marked(method: str) -> str:
    """The row's name, marked if the method's setting is not its paper's; a control's method is marked in its own."""
    return f"{method} {MARK}" if method in METHODS and read_declaration(method).departure else method


def _departures(table: Table) -> str:
    """How each marked method's setting differs from its paper's."""
    found = {method: read_declaration(method).departure for method in _best_first(table) if method in METHODS}
    lines = "\n".join(f"- {method}: {departure}" for method, departure in found.items() if departure)
    if not lines:
        return ""
    return (
        f'{MARK} marks methods whose setting is not their paper\'s; "15 epochs for 100" means 15 here and 100 there. '
        f"That all methods rest on one frozen backbone is not marked.\n\n{lines}"
    )


def _failures(table: Table) -> str:
    """The adversarial trainings that ended in a failure."""
    lines = [
        f"- {row} at {bits} bits, seed {line.seed}: {MEANINGS[sign]}"
        for (row, bits), summary in table.summaries.items()
        for line in summary.results
        for sign in line.failures
    ]
    return "Trainings that had failed when they ended:\n\n" + "\n".join(lines) if lines else ""


def _paper_note(table: Table) -> str:
    if not paper.printed(data_set_of(table.setting), METRIC, table="T1"):
        return ""
    return (
        "The paper's numbers are those of its table 1, on other backbones: it fine-tunes a ResNet-50 for NSH, its "
        "rivals rest on VGG-16 features."
    )


def _more_table(table: Table) -> str:
    names = {
        "re-ranked": "mAP_at_1000_reranked",
        "P@1000": "P_at_1000",
        "P@H≤2": "P_at_H2",
        "seconds": "train_seconds",
    }
    header = ["method", *(f"{shown}: {bits}" for shown in names for bits in table.bits)]
    rows = []
    for method in _best_first(table):
        found = [(name, table.summaries.get((method, bits))) for name in names.values() for bits in table.bits]
        rows.append([method, *(_plain(summary, name) for name, summary in found)])
    return markdown_table(header, rows)


def _comparison(table: Table) -> str:
    """NSH against the best rival, at each length where both are measured."""
    lines = compare_with_rivals(table.summaries, metric=METRIC)
    if not lines:
        return ""
    return (
        "NSH and its best rival, with the 95 % interval of a paired bootstrap over blocks of queries, for these "
        "trainings:\n\n" + "\n".join(lines)
    )


def _best_first(table: Table) -> list[str]:
    """Measured rows by their mean over the lengths that are measured, those with missing lengths after the others."""

    def place(method: str) -> tuple[int, float]:
        there = [table.summaries[method, bits] for bits in table.bits if (method, bits) in table.summaries]
        return len(there), sum(summary.mean(METRIC) for summary in there)

    measured = {method for method, _ in table.summaries}
    return sorted((row for row in table.rows if row in measured), key=place, reverse=True)


def _unmeasured(table: Table) -> str:
    """The rows that the table does not have."""
    missing = [row for row in table.rows if row not in {method for method, _ in table.summaries}]
    return f"Not measured yet: {', '.join(missing)}." if missing else ""


def _mean(table: Table, method: str, bits: int) -> str:
    summary, best = table.summaries.get((method, bits)), find_best(table.summaries, bits, metric=METRIC)
    if summary is None or best is None:
        return MISSING
    text = mean_text(summary, METRIC, seeds=table.seeds)
    if method == best:
        return f"**{text}**"
    sides = table.summaries[best, bits], summary
    return f"{text} **≈**" if can_compare(*sides) and difference(*sides, metric=METRIC).is_tie else text


def _plain(summary: Summary[Line] | None, name: str) -> str:
    if summary is None:
        return MISSING
    return f"{summary.mean(name):.0f}" if name == "train_seconds" else f"{summary.mean(name):.3f}"


def _printed(values: Mapping[int, Any], lengths: Sequence[int]) -> list[str]:
    return [f"{values[bits]:.3f}" if bits in values else "" for bits in lengths]


if __name__ == "__main__":
    run_command(main)
