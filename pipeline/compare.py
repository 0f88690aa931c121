"""Stage compare: the results of all pairs in metrics/ -> reports/: one table and the pictures.

reports/ holds results.md, results.csv, embedding.json (the backbone's ceiling: the float embedding by cosine),
precision_at_k.csv, pr_ranking.csv and training.csv (the charts of `dvc plots`), and the pictures.
"""

from functools import partial

from nsh.config import read_params
from nsh.data.registry import open_chosen
from nsh.data.split import read_header, read_part
from nsh.project.embeddings import Embeddings, measure_ceiling
from nsh.project.paths import Project, pairs_of
from nsh.project.results import read_measured, read_nearest
from nsh.reports.heading import Heading, best_pair
from nsh.reports.retrieval import THUMBNAIL, Side, describe_grid, draw_grid, read_lines
from nsh.reports.write import write_reports
from nsh.system.command import run_stage
from nsh.terminal import show_progress, take_no_arguments


def main() -> None:
    """Read the results of every pair, and write the report."""
    params, project = read_params(), Project()
    split, embeddings, k = read_header(project.split), Embeddings(project.embed), params.evaluate.k
    parts = {part: read_part(project.split, part) for part in ("query", "gallery")}
    matrix = pairs_of(params.matrix.methods, sorted(params.matrix.bits))
    measured = [read_measured(project.of(pair)) for pair in matrix]
    best, classes = best_pair(measured, k=k), split["classes"]
    lines = read_lines(read_nearest(project.of(best.pair)))
    title = describe_grid(best.method, best.bits, classes=classes)
    image = partial(open_chosen(params.dataset, raw=project.raw).image, size=THUMBNAIL)
    query, gallery = (Side(part.ids, part.labels) for part in parts.values())
    grid = draw_grid(query, gallery, lines=lines, image=image, classes=classes, title=title)
    labels = {name: part.labels for name, part in parts.items()}
    ceiling = measure_ceiling(embeddings, labels, k=k, progress=show_progress)
    name, mode = params.dataset.name, params.train.mode
    heading = Heading(data_set=name, split=split, backbone=embeddings.header, k=k, ceiling=ceiling, mode=mode)
    write_reports(project.reports, measured, heading, retrieval=grid)
    print((project.reports / "results.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
