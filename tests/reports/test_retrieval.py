import numpy as np
import pytest
from PIL import Image

from nsh.core.metrics import find_examples
from nsh.reports.pictures import to_png
from nsh.reports.retrieval import NEUTRAL, RIGHT, WRONG, Line, Side, draw_grid, read_lines


def image(name):
    return Image.new("RGB", (40, 30), (int(name[1:]) * 5 % 256, 80, 120))


QUERY = np.array([[0], [255]], np.uint8)
GALLERY = np.array([[0b11111111], [0b00000001], [0], [0b00000111]], np.uint8)
LINES = [Line(0, (2, 1, 3, 0), (0, 1, 3, 8)), Line(1, (0, 3, 1, 2), (0, 5, 7, 8))]


@pytest.fixture
def query():
    return Side(["q0", "q1"], np.array([[True, False], [False, True]]))


@pytest.fixture
def gallery():
    return Side(["g0", "g1", "g2", "g3"], np.array([[False, True], [False, True], [True, False], [True, True]]))


def frames(figure):
    """Colour of every frame, in the order of drawing."""
    from matplotlib.colors import to_hex

    return [to_hex(patch.get_edgecolor()).upper() for patch in figure.axes[0].patches]


def draw(query, gallery, classes=("cat", "dog")):
    return draw_grid(query, gallery, lines=LINES, image=image, classes=classes, title="nsh, 8 bits")


def test_frames_say_what_is_right(query, gallery):
    figure = draw(query, gallery)
    # q0 finds g2 (cat), g1 (dog), g3 (both), g0 (dog); q1 finds g0 (dog), g3, g1 (dog), g2 (cat)
    assert frames(figure) == [RIGHT, WRONG, RIGHT, WRONG, RIGHT, RIGHT, RIGHT, WRONG]
    assert len(figure.axes[0].lines) == 2 * 3  # every wrong answer is crossed
    assert [text.get_text() for text in figure.axes[0].texts] == ["cat", "0", "1", "3", "8", "dog", "0", "5", "7", "8"]


def test_without_labels_frames_are_neutral(query, gallery):
    figure = draw(Side(query.ids, None), Side(gallery.ids, None), classes=None)
    assert set(frames(figure)) == {NEUTRAL}
    assert figure.axes[0].lines[:] == []


def test_the_grid_is_the_same_bytes_again(query, gallery):
    assert to_png(draw(query, gallery)) == to_png(draw(query, gallery))


def test_lines_are_what_the_codes_find():
    table = find_examples(QUERY, GALLERY, None, seed=0)
    assert sorted(read_lines(table), key=lambda line: line.query) == LINES
