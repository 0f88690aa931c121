"""Writes all files of a report to one folder, atomically."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from nsh.project.results import Measured
from nsh.reports import pictures
from nsh.reports.heading import Heading
from nsh.reports.markdown import results_markdown
from nsh.reports.numbers import merged_curve, merged_training, results_csv
from nsh.system.files import write_json, write_text
from nsh.system.folders import atomic_folder


def write_reports(folder: Path, measured: Sequence[Measured], heading: Heading, *, retrieval: Figure) -> None:
    """Replace `folder` by the report of `measured`. Equal input gives equal bytes.

    Args:
        folder: reports/.
        measured: the pairs, in the order they are shown in.
        heading: what they were measured on.
        retrieval: the figure of the retrieval grid.
    """
    figures = {"retrieval.png": retrieval} | pictures.draw_all(measured)
    with atomic_folder(folder) as new:
        for name, figure in figures.items():
            (new / name).write_bytes(pictures.to_png(figure))
        write_text(new / "results.md", results_markdown(measured, heading, pictures=list(figures)))
        write_text(new / "results.csv", results_csv(measured, heading))
        write_text(new / "precision_at_k.csv", merged_curve(measured, "precision_at_k", x="k", y="precision"))
        write_text(new / "pr_ranking.csv", merged_curve(measured, "pr_ranking", x="recall", y="precision"))
        write_text(new / "training.csv", merged_training(measured))
        write_json(new / "embedding.json", dict(heading.ceiling))
