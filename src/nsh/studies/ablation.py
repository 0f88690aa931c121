"""Table 3 of the paper, what each part of NSH is worth -> docs/results.md and docs/results/<setting>.csv.

A row is NSH with some of its parameters changed: the paper's, the paper's with one part taken out, and ours. Whatever
the record has is in the table; what nobody has measured is marked as missing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

from nsh.config import Params, read_params
from nsh.reports import paper
from nsh.reports.markdown import markdown_table
from nsh.reports.summary import Summary, can_compare, difference
from nsh.studies.command import (
    make_call,
    open_measuring_parser,
    open_setting,
    raise_failures,
    run,
    summarise_groups,
)
from nsh.studies.document import made_with, mean_text, write_section
from nsh.studies.record import Line, record_results
from nsh.studies.setting import data_set_of, title_of
from nsh.studies.trials import Trial, make_trial
from nsh.system.command import run_command

BITS = (16, 32, 64)
METRIC = "mAP_at_1000"
PAPER: dict[str, Any] = {"init": "random", "m": 2}
"""What makes nsh the paper's, where params.yaml has ours."""


@dataclass(frozen=True)
class Variant:
    """One row.

    Attributes:
        name: what the row is called.
        changed: parameters of nsh that differ from params.yaml.
        printed: the name of it in table 3; empty if it is not there.
    """

    name: str
    changed: Mapping[str, Any]
    printed: str = ""


VARIANTS = (
    Variant("NSH, the paper's", PAPER, "NSH"),
    Variant("(i) hard sort", PAPER | {"ablation": "hard_sort"}, "NSH-ablation(i) hard-sort"),
    Variant("(ii) without L_R", PAPER | {"ablation": "no_quantisation"}, "NSH-ablation(ii) w/o L_R"),
    Variant("(iii) decoding loss", PAPER | {"ablation": "decoding"}, "NSH-ablation(iii) decoding loss"),
    Variant("(iv) single bottleneck", PAPER | {"ablation": "single_bottleneck"}, "NSH-ablation(iv) single bottleneck"),
    Variant("(v) no softsort, latents", PAPER | {"ablation": "no_softsort_latents"}, "NSH-ablation(v) w/o softsort"),
    Variant("(v) no softsort, codes", PAPER | {"ablation": "no_softsort_codes"}, "NSH-ablation(v) w/o softsort"),
    Variant("(vi) multi-label NCE", PAPER | {"ablation": "multi_label_nce"}, "NSH-ablation(vi) multi-label NCE"),
    Variant("literal temperature, tau_s = d_b", PAPER | {"tau_s": "d_b"}),
    Variant("NSH, ours", {}),
)

Found = Mapping[tuple[str, int], Summary[Line]]  # by name of the variant and bits; without what is not measured


def main() -> None:
    """Measure what is asked for and write the table of all there is."""
    parser = open_measuring_parser(__doc__)
    parser.add_argument("--bits", nargs="+", type=int, choices=BITS, help=f"measure these only (default: {BITS})")
    arguments, params = parser.parse_args(), read_params()
    seeds = arguments.seeds or 1
    groups = make_groups(params, seeds)
    setting = open_setting(arguments, params)
    wanted = [trial for trials in groups.values() for trial in trials if trial.bits in (arguments.bits or BITS)]
    failures = run(wanted, setting, arguments, params)
    lines = record_results(setting, params)
    found, seeds = summarise_groups(partial(make_groups, params), lines, setting, seeds=seeds)
    text = ablation_markdown(found, setting=arguments.setting, seeds=seeds)
    write_section(f"{arguments.setting}-ablation", text)
    print(text)
    raise_failures(failures)


def make_groups(params: Params, seeds: int) -> dict[tuple[str, int], list[Trial]]:
    """The trials of every variant and code length, one a seed."""
    return {
        (variant.name, bits): [
            make_trial(params, "nsh", bits=bits, seed=seed, changed=variant.changed) for seed in range(seeds)
        ]
        for bits in BITS
        for variant in VARIANTS
    }


def ablation_markdown(found: Found, *, setting: str, seeds: int) -> str:
    """The section of docs/results.md."""
    printed = paper.printed(data_set_of(setting), METRIC, table="T3")
    parts = [
        f"## {title_of(setting)}: what each part of NSH is worth",
        f"mAP@1000 over {seeds} training seed(s), on the images of the table. All rows but the last have the paper's "
        "random start and m = 2, and params.yaml's other values; how each ablation is read is said in "
        "[decision 6](decisions/0006-how-the-paper-is-read.md), with (v) in two readings.",
        _table(found, printed, seeds=seeds),
        _order(found, printed),
        made_with(make_call("ablation", setting, seeds=seeds)),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(found: Found, printed: Mapping[str, Mapping[int, float]], *, seeds: int) -> str:
    header = ["mAP@1000", *(f"{bits} bits" for bits in BITS)]
    rows = [
        [row.name, *(mean_text(found.get((row.name, bits)), METRIC, seeds=seeds) for bits in BITS)] for row in VARIANTS
    ]
    if printed:
        header += [f"paper: {bits}" for bits in BITS]
        theirs = [printed.get(variant.printed, {}) for variant in VARIANTS]
        rows = [
            row + [f"{values[bits]:.3f}" if bits in values else "" for bits in BITS]
            for row, values in zip(rows, theirs, strict=True)
        ]
    return markdown_table(header, rows)


def _order(found: Found, printed: Mapping[str, Mapping[int, float]]) -> str:
    """At each length, how many pairs of rows stand as in the paper, and which do not."""
    lines = []
    for bits in BITS:
        pairs = list(_pairs(found, printed, bits))
        reversed_pairs = [pair for pair in pairs if _ahead(found, pair, bits) <= 0]
        if pairs:
            named = "; ".join(_describe(found, pair, bits) for pair in reversed_pairs)
            count = f"{len(pairs) - len(reversed_pairs)} of {len(pairs)} pairs"
            lines.append(
                f"- {bits} bits: {count}" + (f"; the other way round: {named}" if named else ", the whole order")
            )
    if not lines:
        return ""
    return (
        "The paper's numbers are those of its table 3, where it fine-tunes a ResNet-50: the order compares, the size "
        "does not. Of all pairs of rows that differ in the paper, these stand in its order here (**≈**: less than two "
        "standard errors apart, a tie):\n\n" + "\n".join(lines)
    )


def _pairs(found: Found, printed: Mapping[str, Mapping[int, float]], bits: int) -> Iterator[tuple[str, str]]:
    """Names of two measured variants of which the paper has the first ahead."""
    theirs = {
        variant.name: printed[variant.printed][bits]
        for variant in VARIANTS
        if bits in printed.get(variant.printed, {}) and (variant.name, bits) in found
    }
    for first, second in combinations(theirs, 2):
        if theirs[first] != theirs[second]:
            yield (first, second) if theirs[first] > theirs[second] else (second, first)


def _ahead(found: Found, pair: tuple[str, str], bits: int) -> float:
    """How far the first of the pair is ahead of the second here."""
    first, second = pair
    return found[first, bits].mean(METRIC) - found[second, bits].mean(METRIC)


def _describe(found: Found, pair: tuple[str, str], bits: int) -> str:
    first, second = (found[name, bits] for name in pair)
    tie = " **≈**" if can_compare(first, second) and difference(second, first, metric=METRIC).is_tie else ""
    return f"{pair[1]} before {pair[0]} by {-_ahead(found, pair, bits):.3f}{tie}"


if __name__ == "__main__":
    run_command(main)
