"""Writes results.md: tables of the figures of all pairs, and the pictures.

It shows measured figures only, with the paper's numbers beside them if data set and metric are the paper's.
"""

from collections.abc import Sequence

from nsh.core.metrics import nested_name
from nsh.project.results import Measured
from nsh.reports import paper
from nsh.reports.heading import Heading
from nsh.reports.numbers import printed_for
from nsh.reports.summary import Summaries, Summary, can_compare, compare_with_rivals, difference, find_best

PICTURES = {
    "retrieval.png": "Queries drawn at random (left) and the ten nearest of the gallery",
    "precision_at_k.png": "Precision over the first k",
    "precision_recall.png": "Precision and recall, over the ranking and over the radius of the ball",
    "precision_at_h2.png": "Within Hamming radius 2",
    "training.png": "Training loss",
}

_TRAINED = {
    "frozen": "frozen",
    "finetune": "fine-tuned by every method that learns by gradient; the float embedding is the frozen one's",
}
"""The description of the backbone, by train.mode."""


def results_markdown(measured: Sequence[Measured], heading: Heading, *, pictures: Sequence[str]) -> str:
    """The report, with the `pictures`, names of `PICTURES`."""
    parts = ["# Results", _describe(heading), _main_table(measured, heading), _nested_table(measured, heading)]
    parts += [_bit_table(measured, heading)]
    parts += [_significance(measured, heading), _paper_section(measured, heading)]
    parts += [
        "\n".join(f"## {PICTURES[name]}\n\n![{PICTURES[name]}]({name})\n" for name in PICTURES if name in pictures)
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _describe(heading: Heading) -> str:
    counts, backbone = heading.split["counts"], heading.backbone
    return (
        f"Data set **{heading.data_set}**: {counts['query']:,} queries, a gallery of {counts['gallery']:,}, "
        f"{counts['train']:,} of them to learn from without labels (split `{heading.split['sha256'][:12]}`). Backbone "
        f"**{backbone['backbone']}** at {backbone['image_size']} px, {_TRAINED[heading.mode]} "
        f"(weights: {backbone['weights']}). "
        "Codes were made by onnxruntime with the very files that ship, and searched exactly."
    )


def _main_table(measured: Sequence[Measured], heading: Heading) -> str:
    k = heading.k
    names = {
        f"mAP@{k}": f"mAP_at_{k}",
        "min": f"mAP_min_at_{k}",
        "ties": f"mAP_tie_aware_at_{k}",
        f"P@{k}": f"P_at_{k}",
        f"recall@{k}": f"recall_at_{k}",
        "P@H≤2": "P_at_H2",
        "re-ranked": f"mAP_at_{k}_reranked",
    }
    if not _is_labelled(measured, heading):
        return (
            "The images have no labels, so no figure says which results are right; the figures below need none. "
            "The method with the highest estimated mAP at a length is first."
        )
    summaries = _summarise(measured)
    printed = {item.key: printed_for(item, heading).get(f"mAP_at_{k}") for item in measured}
    with_paper = any(value is not None for value in printed.values())
    rows = [["float embedding, cosine", "", *(_four(heading.ceiling.get(name)) for name in names.values())]]
    for item in measured:
        figures = [_four(item.metrics[name]) for name in names.values()]
        figures[0] = _mark(figures[0], item, summaries, metric=f"mAP_at_{k}")
        rows.append([item.method, str(item.bits), *figures])
    header = ["method", "bits", *names]
    if with_paper:
        header.insert(3, "paper")
        rows = [[*row[:3], _three(printed.get(f"{row[0]}-{row[1]}")), *row[3:]] for row in rows]
    return (
        f"mAP@{k} divides by the hits among the first {k}, as the paper does; *min* divides by min(R, k); *ties* is "
        f"the expectation over random orders of equal distances. *Re-ranked* is mAP@{k} after the nearest are ordered "
        "again by the query's real values; all other figures compare bits with bits. A query without a hit counts 0. "
        "**≈** marks what is "
        "less than two standard errors behind the best of its length (of the difference, query by query): a tie.\n\n"
        + markdown_table(header, rows)
    )


def _nested_table(measured: Sequence[Measured], heading: Heading) -> str:
    """The mAP of nested codes at each of their lengths."""
    rows = []
    for item in measured:
        names = {bits: nested_name(bits, k=heading.k) for bits in range(1, item.bits)}
        found = {bits: item.metrics[name] for bits, name in names.items() if name in item.metrics}
        if found:
            found[item.bits] = item.metrics[f"mAP_at_{heading.k}"]
        rows += [[item.key, str(bits), _four(figure)] for bits, figure in found.items()]
    if not rows:
        return ""
    return (
        "Nested codes: one training, one encoder and one index, searched by the first bits alone.\n\n"
        + markdown_table(["nested codes", "bits", f"mAP@{heading.k}"], rows)
    )


def _is_labelled(measured: Sequence[Measured], heading: Heading) -> bool:
    return all(f"mAP_at_{heading.k}" in item.metrics for item in measured)


def _summarise(measured: Sequence[Measured]) -> Summaries:
    """One training each."""
    return {(item.method, item.bits): Summary([item]) for item in measured}


def _mark(figure: str, item: Measured, summaries: Summaries, *, metric: str) -> str:
    """Make the best figure bold and mark ties with it; a single query gives no tie."""
    best = find_best(summaries, item.bits, metric=metric)
    if best is None or best == item.method:
        return f"**{figure}**"
    sides = summaries[best, item.bits], summaries[item.method, item.bits]
    return f"{figure} **≈**" if can_compare(*sides) and difference(*sides, metric=metric).is_tie else figure


def _significance(measured: Sequence[Measured], heading: Heading) -> str:
    """NSH against the best other method, at each length that both have."""
    metric = f"mAP_at_{heading.k}"
    if not _is_labelled(measured, heading):
        return ""
    lines = compare_with_rivals(_summarise(measured), metric=metric)
    if not lines:
        return ""
    return (
        "NSH and its best rival, with the 95 % interval of a bootstrap over the queries, each of which both have "
        "answered. It tells what other queries would change, not what another training would.\n\n" + "\n".join(lines)
    )


def _bit_table(measured: Sequence[Measured], heading: Heading) -> str:
    """The figures that need no labels; where there are none, the best estimate of a length comes first."""
    estimate = f"estimated_mAP_at_{heading.k}"
    names = {
        f"estimated mAP@{heading.k}": estimate,
        "empty balls": "empty_ball_share",
        "bit balance": "bit_balance",
        "constant bits": "constant_bits_share",
        "unique codes": "unique_codes",
        "entropy a bit": "code_entropy",
    }
    if not _is_labelled(measured, heading):
        measured = sorted(measured, key=lambda item: (item.bits, -item.metrics.get(estimate, 0.0)))
    rows = [
        [item.method, str(item.bits), *(_count_or_four(name, item.metrics.get(name)) for name in names.values())]
        for item in measured
    ]
    return (
        f"What needs no labels. *Estimated mAP@{heading.k}* is that of near float embeddings in the place of relevant "
        "images, weighed by how dense the codes' groups are: it ranks methods at one length, and is no forecast of the "
        "mAP with labels. *Empty balls*: share of queries with nothing within radius 2; *bit balance*: 1 if every bit "
        "is 1 for half of the gallery.\n\n" + markdown_table(["method", "bits", *names], rows)
    )


def _paper_section(measured: Sequence[Measured], heading: Heading) -> str:
    """The paper's table for this data set and metric, and our figures below it."""
    metric = f"mAP_at_{heading.k}"
    printed = paper.printed(heading.data_set, metric, table="T1")
    if not printed:
        return ""
    lengths = sorted({bits for values in printed.values() for bits in values})
    rows = [[method, *(_three(values.get(bits)) for bits in lengths)] for method, values in printed.items()]
    for method in dict.fromkeys(item.method for item in measured):
        ours = {item.bits: item.metrics.get(metric) for item in measured if item.method == method}
        rows.append([f"**{method}, ours**", *(_three(ours.get(bits)) for bits in lengths)])
    return (
        f"## Beside the paper\n\nmAP@{heading.k} as printed in table 1 of the NSH paper. "
        f"{_compare_protocol(heading)}\n\n" + markdown_table(["method", *(f"{bits} bits" for bits in lengths)], rows)
    )


def _compare_protocol(heading: Heading) -> str:
    counts = heading.split["counts"]
    backbones = "Backbones differ (the paper fine-tunes a ResNet-50, its rivals rest on VGG-16 features)"
    if (heading.backbone["backbone"], heading.mode) == ("resnet50", "finetune"):
        backbones = "Recipes differ (both fine-tune a ResNet-50, the paper's rivals rest on VGG-16 features)"
    queries, gallery = paper.SIZES[heading.data_set]
    if (counts["query"], counts["gallery"]) == (queries, gallery):
        return f"{backbones}; queries and gallery are the paper's."
    return (
        f"{backbones}, and so do the images: {counts['query']:,} queries and a gallery of {counts['gallery']:,} here, "
        f"{queries:,} and {gallery:,} there."
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first column is aligned left, the others right."""
    lines = [header, ["---" if column == 0 else "---:" for column in range(len(header))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _four(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _count_or_four(name: str, value: float | None) -> str:
    return f"{value:,.0f}" if name == "unique_codes" and value is not None else _four(value)
