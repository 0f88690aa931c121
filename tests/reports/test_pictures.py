import io

import numpy as np
import pytest
from PIL import Image

from nsh.reports import pictures

DRAW = [
    pictures.draw_precision_at_k,
    pictures.draw_precision_recall,
    pictures.draw_radius_two,
    pictures.draw_training,
]


@pytest.mark.parametrize("draw", DRAW)
def test_equal_numbers_are_equal_bytes_that_name_no_program(measured, draw):
    first, second = pictures.to_png(draw(measured)), pictures.to_png(draw(measured))
    assert first == second
    image = Image.open(io.BytesIO(first))
    assert not {"Software", "Creation Time", "date"} & image.info.keys()


@pytest.mark.parametrize("draw", DRAW)
def test_a_picture_shows_every_pair(measured, draw):
    figure = draw(measured)
    drawn = sum(len(axes.lines) + len(axes.containers) for axes in figure.axes)
    expected = {"draw_precision_recall": 8, "draw_radius_two": 4}  # two curves a pair; two bars groups a method
    assert drawn == expected.get(draw.__name__, 4)


@pytest.mark.parametrize("draw", DRAW)
def test_the_legend_covers_no_panel(measured, draw):
    figure = draw(measured)
    pictures.to_png(figure)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_colours_of_methods_are_told_apart_without_colour(measure):
    many = [measure(f"m{place}", 16, 0.5) for place in range(7)]
    lines = pictures.draw_precision_at_k(many).axes[0].lines
    assert len({line.get_marker() for line in lines}) == 7
    grey = [np.dot(_rgb(line.get_color()), (0.299, 0.587, 0.114)) for line in lines]
    assert len({round(value, 2) for value in grey}) >= 6


def test_without_labels_bars_show_what_is_known(measure):
    figure = pictures.draw_radius_two([measure("nsh", 16, 0.5, labelled=False)])
    assert [axes.get_title() for axes in figure.axes] == ["Queries with nothing within radius 2"]


def test_a_pair_that_is_missing_leaves_a_gap_and_no_other_out(measured):
    parted = [item for item in measured if item.key != "nsh-16"]
    bars = {bars.get_label(): bars for bars in pictures.draw_radius_two(parted).axes[0].containers}
    (nsh,) = bars["nsh"].patches
    assert nsh.get_center()[0] == pytest.approx(0.8, abs=0.01)  # at 32 bits, left of itq's
    (legend,) = pictures.draw_precision_recall(parted).legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["itq", "nsh"]


def _rgb(colour):
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
