import numpy as np

from nsh.core.hamming import rank
from nsh.core.metrics.examples import QUERIES, RESULTS, choose_queries, find_examples


def test_queries_are_drawn_by_the_seed_and_show_each_class_once_first():
    labels = np.zeros((100, 4), dtype=bool)
    labels[np.arange(100), np.r_[np.zeros(97, dtype=int), 1, 2, 3]] = True
    rows = choose_queries(100, labels, count=6, seed=3)
    assert rows == choose_queries(100, labels, count=6, seed=3)
    assert rows != choose_queries(100, labels, count=6, seed=4)
    assert len(set(rows)) == 6
    assert sorted(int(labels[row].argmax()) for row in rows[:4]) == [0, 1, 2, 3]


def test_fewer_queries_than_asked_for_are_all_drawn():
    labels = np.array([[True, False], [False, True]])
    assert sorted(choose_queries(2, labels, count=8, seed=0)) == [0, 1]
    assert sorted(choose_queries(2, None, count=8, seed=0)) == [0, 1]


def test_each_example_has_the_nearest_items_in_their_order():
    random = np.random.default_rng(0)
    query, gallery = random.integers(0, 256, (20, 2), np.uint8), random.integers(0, 256, (50, 2), np.uint8)
    table = find_examples(query, gallery, None, seed=1)
    rows = table["query"].reshape(QUERIES, RESULTS)
    assert (rows == rows[:, :1]).all()
    nearest, distances = rank(query[rows[:, 0]], gallery, k=RESULTS)
    assert np.array_equal(table["gallery"].reshape(QUERIES, RESULTS), nearest)
    assert np.array_equal(table["distance"].reshape(QUERIES, RESULTS), distances)
