import numpy as np
import pytest
from PIL import Image

from nsh.core.manifest import Codes, Entry
from nsh.reports.pictures import to_png
from nsh.reports.retrieval import NEUTRAL, RIGHT, WRONG, Side, choose_queries, draw_grid, make_side


def image(name):
    return Image.new("RGB", (40, 30), (int(name[1:]) * 5 % 256, 80, 120))


@pytest.fixture
def query():
    return Side(["q0", "q1"], np.array([[0], [255]], np.uint8), np.array([[True, False], [False, True]]))


@pytest.fixture
def gallery():
    codes = np.array([[0b11111111], [0b00000001], [0], [0b00000111]], np.uint8)
    return Side(["g0", "g1", "g2", "g3"], codes, np.array([[False, True], [False, True], [True, False], [True, True]]))


def frames(figure):
    """Colour of every frame, in the order of drawing."""
    from matplotlib.colors import to_hex

    return [to_hex(patch.get_edgecolor()).upper() for patch in figure.axes[0].patches]


def draw(query, gallery, classes=("cat", "dog")):
    return draw_grid(query, gallery, rows=[0, 1], image=image, classes=classes, title="nsh, 8 bits")


def test_frames_say_what_is_right(query, gallery):
    figure = draw(query, gallery)
    # q0 finds g2 (cat), g1 (dog), g3 (both), g0 (dog); q1 finds g0 (dog), g3, g1 (dog), g2 (cat)
    assert frames(figure) == [RIGHT, WRONG, RIGHT, WRONG, RIGHT, RIGHT, RIGHT, WRONG]
    assert len(figure.axes[0].lines) == 2 * 3  # every wrong answer is crossed
    assert [text.get_text() for text in figure.axes[0].texts] == ["cat", "0", "1", "3", "8", "dog", "0", "5", "7", "8"]


def test_without_labels_frames_are_neutral(query, gallery):
    figure = draw(Side(query.ids, query.codes, None), Side(gallery.ids, gallery.codes, None), classes=None)
    assert set(frames(figure)) == {NEUTRAL}
    assert figure.axes[0].lines[:] == []


def test_the_grid_is_the_same_bytes_again(query, gallery):
    assert to_png(draw(query, gallery)) == to_png(draw(query, gallery))


def test_queries_are_drawn_by_the_seed_and_show_each_class_once_first():
    labels = np.zeros((100, 4), dtype=bool)
    labels[np.arange(100), np.r_[np.zeros(97, dtype=int), 1, 2, 3]] = True
    side = Side([f"q{row}" for row in range(100)], np.zeros((100, 1), np.uint8), labels)
    rows = choose_queries(side, count=6, seed=3)
    assert rows == choose_queries(side, count=6, seed=3)
    assert rows != choose_queries(side, count=6, seed=4)
    assert len(set(rows)) == 6
    assert sorted(int(labels[row].argmax()) for row in rows[:4]) == [0, 1, 2, 3]


def test_fewer_queries_than_lines_are_all_shown(query):
    assert sorted(choose_queries(query, count=8, seed=0)) == [0, 1]
    assert sorted(choose_queries(Side(query.ids, query.codes, None), count=8, seed=0)) == [0, 1]


def test_an_image_without_a_code_has_no_row():
    codes = Codes(["c", "a"], np.array([[1], [2]], np.uint8), {}, [Entry(id="b", status="error", error="broken")])
    side = make_side(codes, ids=["a", "b", "c"], labels=np.array([[True, False], [True, True], [False, True]]))
    assert side.labels.tolist() == [[False, True], [True, False]]
