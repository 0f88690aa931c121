"""The pictures that only studies have, in the colours of `nsh.reports.pictures`. Reads and writes no files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nsh.reports.pictures import COLOURS, MARKERS, PANEL, STYLE, outside_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASS_COLOURS = (*COLOURS[:6], "#999999", "#882255", "#BBCC33", COLOURS[6])
"""Ten classes are more than Okabe and Ito have colours."""


@dataclass(frozen=True)
class Panel:
    """One panel of a sweep: values, evenly spaced, and a line a method.

    Attributes:
        title: what is varied.
        values: as they are written below the axis.
        lines: by method, mean and spread (0 for one seed) at each value; None where nothing is measured.
        chosen: place of the value of params.yaml, None if it is not among them.
    """

    title: str
    values: Sequence[str]
    lines: Mapping[str, Sequence[tuple[float, float] | None]]
    chosen: int | None


def draw_sweep(panels: Sequence[Panel], *, label: str) -> Figure:
    """Panels two by two on one scale, which `label` names; a dotted line where params.yaml stands."""
    methods = list(dict.fromkeys(method for panel in panels for method in panel.lines))
    rows = -(-len(panels) // 2)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2 * PANEL, 0.82 * PANEL * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, 2, squeeze=False, sharey=True)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, panels, strict=False):
            for method, line in panel.lines.items():
                _draw_line(axes, line, method=method, place=methods.index(method))
            if panel.chosen is not None:
                axes.axvline(panel.chosen, color="#888888", linestyle=":", linewidth=1.4, zorder=0)
            axes.set_xticks(range(len(panel.values)), panel.values, fontsize=9.5)
            axes.set(title=panel.title, xlim=(-0.3, len(panel.values) - 0.7))
        for axes in grid[:, 0]:
            axes.set_ylabel(label)
        outside_legend(figure, grid.flat)
        return figure


def _draw_line(axes: "Axes", line: Sequence[tuple[float, float] | None], *, method: str, place: int) -> None:
    means, spreads = np.array([(np.nan, np.nan) if point is None else point for point in line]).T
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    axes.errorbar(
        range(len(line)), means, yerr=spreads, label=method, color=colour, marker=marker, capsize=2.5, elinewidth=1.2
    )


def draw_codes(
    places: Mapping[tuple[str, int], NDArray[np.float64]], classes: NDArray[np.int64], names: Sequence[str]
) -> Figure:
    """Images as points, a row of panels a method and a column a code length.

    Args:
        places: by method and bits, float64 [n, 2]; a pair may be missing.
        classes: int64 [n], the class of each image.
        names: of the classes.
    """
    methods, lengths = (list(dict.fromkeys(keys)) for keys in zip(*places, strict=True))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL * len(lengths), PANEL * len(methods) + 0.7), layout="constrained")
        grid = figure.subplots(len(methods), len(lengths), squeeze=False)
        for row, method in enumerate(methods):
            for axes, bits in zip(grid[row], lengths, strict=True):
                if (method, bits) in places:
                    _draw_points(axes, places[method, bits], classes, names)
                    axes.set_title(f"{method}, {bits} bits")
                else:
                    axes.set_axis_off()
        outside_legend(figure, grid.flat, columns=5, markerscale=4, handletextpad=0.1)
        return figure


def _draw_points(axes: "Axes", places: NDArray[np.float64], classes: NDArray[np.int64], names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        x, y = places[classes == number].T
        axes.scatter(x, y, s=3.5, linewidths=0, color=CLASS_COLOURS[number % len(CLASS_COLOURS)], label=name)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[["top", "right", "bottom", "left"]].set(visible=True, color="#CCCCCC")
