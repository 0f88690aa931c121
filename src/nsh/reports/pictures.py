"""Draws the pictures of a comparison; each function draws one figure of all pairs. Reads and writes no files.

Colours are Okabe and Ito's, for colour-blind readers; methods also differ in marker or panel. The same numbers give the
same bytes (see `to_png`).
"""

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from nsh.project.results import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
PANEL = 3.4  # inches a side
DPI = 120
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
}


def to_png(figure: Figure) -> bytes:
    """PNG bytes without the name and version of the drawing library."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def draw_all(measured: Sequence[Measured]) -> dict[str, Figure]:
    """All possible figures by file name; curves need labels."""
    figures = {"precision_at_h2.png": draw_radius_two(measured), "training.png": draw_training(measured)}
    if all(len(item.curves["precision_at_k"]["k"]) for item in measured):
        figures["precision_at_k.png"] = draw_precision_at_k(measured)
        figures["precision_recall.png"] = draw_precision_recall(measured)
    return figures


def draw_precision_at_k(measured: Sequence[Measured]) -> Figure:
    """Precision over the first k, one panel for each code length."""
    with mpl.rc_context(STYLE):
        figure, panels = _panels(measured, rows=1, title="Precision over the first k results")
        for bits, (axes,) in panels.items():
            for item, look in _of(measured, bits):
                curve = item.curves["precision_at_k"]
                axes.plot(curve["k"], curve["precision"], label=item.method, markevery=_marks(curve["k"]), **look)
            axes.set(title=f"{bits} bits", xlabel="k", xscale="log")
        _label_first(panels, ["precision"])
        _legend(figure, panels)
        return figure


def draw_precision_recall(measured: Sequence[Measured]) -> Figure:
    """Precision-recall curves over the ranking and over the radius of the ball, one panel for each code length."""
    with mpl.rc_context(STYLE):
        figure, panels = _panels(measured, rows=2, title="Precision and recall")
        for bits, (ranking, lookup) in panels.items():
            for item, look in _of(measured, bits):
                curve = item.curves["pr_ranking"]
                ranking.plot(curve["recall"], curve["precision"], label=item.method, markevery=0.12, **look)
                curve = item.curves["pr_lookup"]
                lookup.plot(curve["recall"], curve["precision"], label=item.method, **look)
            ranking.set(title=f"{bits} bits", xlabel="recall", xlim=(-0.02, 1.02))
            lookup.set(xlabel="recall", xlim=(-0.02, 1.02))
        _label_first(panels, ["precision down the ranking", "precision by radius"])
        _legend(figure, panels)
        return figure


def draw_radius_two(measured: Sequence[Measured]) -> Figure:
    """Bars by code length: precision within Hamming radius 2 (with labels), and the share of empty balls."""
    titles = {
        "P_at_H2": "Precision within Hamming radius 2",
        "empty_ball_share": "Queries with nothing within radius 2",
    }
    shown = [name for name in titles if all(name in item.metrics for item in measured)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.45 * PANEL * len(shown), PANEL), layout="constrained")
        all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
        for name, axes in zip(shown, all_axes, strict=True):
            _draw_bars(axes, measured, name)
            axes.set(title=titles[name], xlabel="bits", ylim=(0, 1.08))
        outside_legend(figure, all_axes)
        return figure


def draw_training(measured: Sequence[Measured]) -> Figure:
    """Loss by epoch, one panel for each method, as their scales differ; shades from short to long codes."""
    methods = list(dict.fromkeys(item.method for item in measured))
    lengths = sorted({item.bits for item in measured})
    shades = mpl.colormaps["viridis"](np.linspace(0.1, 0.85, len(lengths)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.35 * PANEL * len(methods), PANEL + 0.4), layout="constrained")
        all_axes = figure.subplots(1, len(methods), squeeze=False)[0]
        for method, axes in zip(methods, all_axes, strict=True):
            for item in (item for item in measured if item.method == method):
                place = lengths.index(item.bits)
                epochs, losses = [row["epoch"] for row in item.history], [row["loss"] for row in item.history]
                look = {"color": shades[place], "marker": MARKERS[place % len(MARKERS)]}
                axes.plot(epochs, losses, label=f"{item.bits} bits", markevery=_marks(epochs), **look)
            axes.set(title=method, xlabel="epoch")
            axes.xaxis.get_major_locator().set_params(integer=True)
        all_axes[0].set_ylabel("training loss")
        outside_legend(figure, all_axes)
        return figure


def _panels(measured: Sequence[Measured], *, rows: int, title: str) -> tuple[Figure, dict[int, "tuple[Axes, ...]"]]:
    """A figure with one column of `rows` panels for each code length."""
    lengths = sorted({item.bits for item in measured})
    figure = Figure(figsize=(PANEL * len(lengths), PANEL * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, len(lengths), squeeze=False, sharey="row")
    figure.suptitle(title, fontsize=13)
    return figure, {bits: tuple(grid[:, column]) for column, bits in enumerate(lengths)}


def _of(measured: Sequence[Measured], bits: int) -> "list[tuple[Measured, dict[str, Any]]]":
    """The pairs of one code length, with the colour and marker of their method."""
    methods = list(dict.fromkeys(item.method for item in measured))
    return [(item, _look(methods.index(item.method))) for item in measured if item.bits == bits]


def _look(place: int) -> dict[str, Any]:
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def _marks(points: Sequence[float] | NDArray[np.float64]) -> list[int]:
    """About eight of the points for markers, evenly spaced in their logarithm."""
    if len(points) == 0:
        return []
    return [int(place) - 1 for place in np.unique(np.geomspace(1, len(points), 8).round())]


def _draw_bars(axes: "Axes", measured: Sequence[Measured], name: str) -> None:
    methods = list(dict.fromkeys(item.method for item in measured))
    lengths = sorted({item.bits for item in measured})
    width = 0.8 / len(methods)
    for place, method in enumerate(methods):
        there = [item for item in measured if item.method == method]
        values = [item.metrics[name] for item in there]
        left = np.array([lengths.index(item.bits) for item in there]) + (place - (len(methods) - 1) / 2) * width
        bars = axes.bar(left, values, width * 0.92, label=method, color=COLOURS[place % len(COLOURS)])
        if len(methods) * len(lengths) <= 12:
            axes.bar_label(bars, fmt="%.2f", fontsize=9, padding=2)
    axes.set_xticks(range(len(lengths)), [str(bits) for bits in lengths])
    axes.grid(visible=False, axis="x")


def _label_first(panels: dict[int, "tuple[Axes, ...]"], labels: Sequence[str]) -> None:
    for axes, label in zip(next(iter(panels.values())), labels, strict=True):
        axes.set_ylabel(label)


def _legend(figure: Figure, panels: dict[int, "tuple[Axes, ...]"]) -> None:
    outside_legend(figure, [axes for column in panels.values() for axes in column])


def outside_legend(figure: Figure, all_axes: "Iterable[Axes]", *, columns: int = 8, **look: Any) -> None:
    """One legend for all panels, below the figure."""
    entries: dict[str, Any] = {}
    for axes in all_axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = min(len(entries), columns)
    figure.legend(entries.values(), entries, loc="outside lower center", ncols=columns, frameon=False, **look)
