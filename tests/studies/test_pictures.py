import io

import numpy as np
import pytest
from PIL import Image

from nsh.reports.pictures import to_png
from nsh.studies.pictures import CLASS_COLOURS, Panel, draw_codes, draw_sweep

PANELS = [
    Panel("bits", ["4", "8", "12"], {"nsh": [(0.3, 0.01), (0.4, 0.02), None], "itq": [(0.2, 0.0)] * 3}, None),
    Panel("tau_s", ["0.1", "d_b"], {"nsh": [(0.5, 0.0), (0.2, 0.0)]}, 0),
    Panel("m", ["1", "2"], {"nsh": [None, None]}, None),
]
CLASSES = np.arange(60) % 3


@pytest.fixture
def places():
    generator = np.random.default_rng(0)
    return {("plus", 64): generator.normal(size=(60, 2)), ("plus", 32): generator.normal(size=(60, 2))} | {
        ("nsh", 64): generator.normal(size=(60, 2))
    }


def test_a_sweep_shows_every_line_and_where_params_yaml_stands():
    figure = draw_sweep(PANELS, label="mAP@1000")
    bits, tau, m, _ = figure.axes
    assert len(bits.containers) == 2
    assert bits.containers[1].lines[0].get_ydata().tolist() == [0.2] * 3
    assert np.isnan(bits.containers[0].lines[0].get_ydata()).tolist() == [False, False, True]
    assert [label.get_text() for label in tau.get_xticklabels()] == ["0.1", "d_b"]
    assert [line.get_xdata() for line in tau.lines if line.get_linestyle() == ":"] == [[0, 0]]
    assert not [line for line in m.lines if line.get_linestyle() == ":"]
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["nsh", "itq"]


def test_every_image_is_a_point_in_the_colour_of_its_class(places):
    figure = draw_codes(places, CLASSES, ["cat", "dog", "frog"])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["plus, 64 bits", "plus, 32 bits", "nsh, 64 bits", ""]
    for axes, expected in zip(figure.axes, places.values(), strict=False):
        drawn = np.concatenate([points.get_offsets() for points in axes.collections])
        assert np.array_equal(drawn, np.concatenate([expected[number == CLASSES] for number in range(3)]))
        assert len({tuple(points.get_facecolor()[0]) for points in axes.collections}) == 3
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cat", "dog", "frog"]


def test_ten_classes_have_ten_colours():
    assert len(set(CLASS_COLOURS)) == 10


def test_equal_numbers_are_equal_bytes_and_nothing_is_covered(places):
    for draw in (lambda: draw_sweep(PANELS, label="mAP"), lambda: draw_codes(places, CLASSES, ["cat", "dog", "frog"])):
        figure = draw()
        png = to_png(figure)
        assert png == to_png(draw())
        assert Image.open(io.BytesIO(png)).getpixel((0, 0))[:3] == (255, 255, 255)
        box = figure.legends[0].get_window_extent()
        assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
