"""The table: every method at 16, 32 and 64 bits, several seeds, in one setting -> docs/results.md and docs/results/.

Whatever is measured goes into the table, also by earlier calls: more seeds, and other code lengths but the short ones,
which `nsh.studies.sweep` shows if they are not asked for here. What is not measured is marked as missing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsh.config import Params, read_params
from nsh.config.declarations import read_declaration
from nsh.data.split import read_header
from nsh.methods import METHODS
from nsh.project.embeddings import Embeddings
from nsh.reports import paper
from nsh.reports.markdown import markdown_table
from nsh.reports.summary import Summaries, Summary, compare_with_rivals, difference, find_best
from nsh.studies.ceiling import Ceiling, measure_ceiling
from nsh.studies.command import make_call, open_measuring_parser, open_setting, raise_failures, run
from nsh.studies.document import MISSING, made_with, mean_text, write_raw, write_section
from nsh.studies.setting import Setting, data_set_of, title_of
from nsh.studies.sweep import SHORT
from nsh.studies.trials import Result, Trial, make_trial, read_results
from nsh.system.command import run_command
from nsh.terminal import show_progress

BITS = (16, 32, 64)
SEEDS = {"cifar10": 5, "fashion-mnist": 3}  # by data set
METRIC = "mAP_at_1000"
CONTROLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "nsh_plus, sorting: 0": ("nsh_plus", {"sorting": 0.0}),
}
"""Rows that show what a part of a method is worth: the method, and its parameters that differ."""
ROWS = (*METHODS, *CONTROLS)
FAILURES = {"collapsed": "the codes collapsed", "vanished": "the critic vanished"}
"""What an adversarial training's last record may say (`nsh.objectives.adversarial.failures`)."""
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
    trials = [make(params, methods, bits=asked, seeds=seeds) for make in (make_trials, make_controls)]
    failures = run([*trials[0], *trials[1]], setting, arguments, params)
    named = choose_results(read_results(setting), params, asked=asked)
    ceiling = measure_ceiling(setting, progress=show_progress)
    table = summarise(setting.name, named, asked=asked, seeds=seeds, ceiling=ceiling)
    write_raw(setting.name, [([row], result) for row, result in named], columns=["method"])
    text = table_markdown(table, heading=describe(setting))
    write_section(setting.name, text)
    print(text)
    raise_failures(failures)


def make_trials(params: Params, methods: Sequence[str], *, bits: Sequence[int], seeds: int) -> list[Trial]:
    """Seed by seed, so that a table of one seed is there long before all are."""
    return [
        make_trial(params, method, bits=length, seed=seed)
        for seed in range(seeds)
        for length in bits
        for method in methods
    ]


def make_controls(params: Params, methods: Sequence[str], *, bits: Sequence[int], seeds: int) -> list[Trial]:
    """The trials of the control rows of `methods`."""
    return [
        make_trial(params, method, bits=length, seed=seed, changed=changed)
        for method, changed in CONTROLS.values()
        if method in methods
        for length in bits
        for seed in range(seeds)
    ]


def choose_results(results: Sequence[Result], params: Params, *, asked: Sequence[int]) -> list[tuple[str, Result]]:
    """Each row's results, without short codes that are not `asked` for; seed by seed."""
    hidden = set(SHORT["bits"]) - set(asked)
    rows = {_key(make_trial(params, method, bits=1, seed=0)): method for method in METHODS}
    for row, (method, changed) in CONTROLS.items():
        rows[_key(make_trial(params, method, bits=1, seed=0, changed=changed))] = row
    shown = [
        (rows[_key(result.trial)], result)
        for result in results
        if _key(result.trial) in rows and result.trial.bits not in hidden
    ]
    return sorted(shown, key=lambda found: (found[1].trial.seed, found[1].trial.bits, ROWS.index(found[0])))


def _key(trial: Trial) -> str:
    return json.dumps([trial.method, trial.parameters], sort_keys=True)


def summarise(
    setting: str,
    named: Sequence[tuple[str, Result]],
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
    groups: dict[tuple[str, int], list[Result]] = {}
    for row, result in named:
        groups.setdefault((row, result.trial.bits), []).append(result)
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
        "paired difference over queries, and over the seeds where there are several).",
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
        f"- {row} at {bits} bits, seed {result.trial.seed}: {meaning}"
        for (row, bits), summary in table.summaries.items()
        for result in summary.results
        for sign, meaning in FAILURES.items()
        if any(record.get(sign) for record in result.measured.history[-1:])
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
        "NSH and its best rival, with the 95 % interval of a paired bootstrap over queries, for these very trainings:"
        "\n\n" + "\n".join(lines)
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
    return f"{text} **≈**" if difference(table.summaries[best, bits], summary, metric=METRIC).is_tie else text


def _plain(summary: Summary[Result] | None, name: str) -> str:
    if summary is None:
        return MISSING
    return f"{summary.mean(name):.0f}" if name == "train_seconds" else f"{summary.mean(name):.3f}"


def _printed(values: Mapping[int, Any], lengths: Sequence[int]) -> list[str]:
    return [f"{values[bits]:.3f}" if bits in values else "" for bits in lengths]


if __name__ == "__main__":
    run_command(main)
