"""Stage compare: what evaluate left of every pair in metrics/ -> reports/: one table and the pictures.

reports/ holds results.md, results.csv, embedding.json (the backbone's ceiling: the float embedding by cosine),
precision_at_k.csv, pr_ranking.csv and training.csv (the charts of `dvc plots`), and the pictures.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nsh.config import Params, read_params
from nsh.core.metrics import cosine_map
from nsh.data.registry import open_images
from nsh.data.split import SplitPart, read_header, read_part
from nsh.reports.measured import Heading, Measured, best_pair, read_columns, read_measured
from nsh.reports.retrieval import Side, draw_grid, read_lines
from nsh.reports.write import write_reports
from nsh.system.command import run_stage
from nsh.system.files import read_json
from nsh.terminal import show_progress, take_no_arguments

RAW, SPLIT, EMBED, CURVES = Path("data/raw"), Path("data/split"), Path("data/embed"), Path("metrics/curves")
REPORTS = Path("reports")
Parts = dict[str, SplitPart]


def main() -> None:
    """Read what every pair left, and write the report."""
    params, split = read_params(), read_header(SPLIT)
    k, parts = params.evaluate.k, {part: read_part(SPLIT, part) for part in ("query", "gallery")}
    measured = read_measured(Path(), methods=params.matrix.methods, bits=params.matrix.bits)
    grid = _draw_grid(params, best_pair(measured, k=k), parts, split=split)
    embed, ceiling = read_json(EMBED / "embed.json"), _measure_ceiling(parts, k=k)
    mode = params.train.mode
    heading = Heading(data_set=params.dataset.name, split=split, backbone=embed, k=k, ceiling=ceiling, mode=mode)
    write_reports(REPORTS, measured, heading, retrieval=grid)
    print((REPORTS / "results.md").read_text(encoding="utf-8"))


def _measure_ceiling(parts: Parts, *, k: int) -> dict[str, float]:
    """Figures of the float embedding, empty without labels; rounded above the last bits that threads may move."""
    query, gallery = parts["query"].labels, parts["gallery"].labels
    if query is None or gallery is None:
        return {}
    query_embeddings, gallery_embeddings = np.load(EMBED / "query.npy"), np.load(EMBED / "gallery.npy")
    figures = cosine_map(query_embeddings, gallery_embeddings, query, gallery, k=k, progress=show_progress)
    return {name: round(value, 6) for name, value in figures.items()}


def _draw_grid(params: Params, pair: Measured, parts: Parts, *, split: dict[str, Any]) -> Figure:
    data_set = params.dataset
    images = open_images(data_set.name, raw=RAW, root=data_set.root, labels=data_set.labels)
    query, gallery = (Side(part.ids, part.labels) for part in parts.values())
    lines = read_lines(read_columns(CURVES / pair.key / "nearest.csv"))
    title = f"{pair.method}, {pair.bits} bits: queries drawn at random, the ten nearest images, their Hamming distances"
    if split["classes"]:
        title += "\nblue: of the query's class; orange, crossed: of another"
    return draw_grid(query, gallery, lines=lines, image=images.image, classes=split["classes"], title=title)


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
