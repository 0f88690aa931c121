import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

import nsh.core.hamming as hamming
from nsh.core.metrics import cosine_map, evaluate
from nsh.core.metrics.cosine import _falling_order
from nsh.errors import ConfigError, DataError


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def figures_by_hand(query, gallery, labels, *, k):
    totals = np.zeros(4)
    depth = min(k, len(gallery))
    for q, own in zip(query.tolist(), labels[0], strict=True):
        order = sorted(range(len(gallery)), key=lambda row: (-cosine(q, gallery[row].tolist()), row))
        relevant = [bool((own & labels[1][row]).any()) for row in order]
        hits, precisions = 0, 0.0
        for rank in range(1, depth + 1):
            if relevant[rank - 1]:
                hits += 1
                precisions += hits / rank
        total = sum(relevant)
        totals += [
            precisions / hits if hits else 0,
            precisions / min(total, depth) if total else 0,
            hits / depth,
            hits / total if total else 0,
        ]
    names = (f"mAP_at_{k}", f"mAP_min_at_{k}", f"P_at_{k}", f"recall_at_{k}")
    return dict(zip(names, totals / len(query), strict=True))


def clustered(*, queries, gallery, dim=16, classes=4, seed=0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, dim))
    embeddings, labels = [], []
    for count in (queries, gallery):
        owner = random.integers(0, classes, count)
        embeddings.append((centres[owner] + random.normal(size=(count, dim))).astype(np.float32))
        labels.append(np.eye(classes, dtype=bool)[owner])
    return embeddings, labels


@pytest.mark.parametrize("k", [1, 7, 60, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_figures_are_the_loops(k, seed):
    embeddings, labels = clustered(queries=9, gallery=60, seed=seed)
    labels[0][0] = False  # a query with nothing relevant
    assert cosine_map(*embeddings, *labels, k=k) == pytest.approx(figures_by_hand(*embeddings, labels, k=k), abs=1e-12)


def test_scikit_learn_agrees():
    embeddings, labels = clustered(queries=9, gallery=80)
    values = [
        average_precision_score((own & labels[1]).any(axis=1), [cosine(query, item) for item in embeddings[1].tolist()])
        for query, own in zip(embeddings[0].tolist(), labels[0], strict=True)
    ]
    assert cosine_map(*embeddings, *labels, k=80)["mAP_at_80"] == pytest.approx(np.mean(values), abs=1e-6)


def test_length_does_not_matter():
    embeddings, labels = clustered(queries=9, gallery=60)
    powers = np.exp2(np.random.default_rng(1).integers(-8, 8, (60, 1))).astype(np.float32)
    assert cosine_map(embeddings[0], embeddings[1] * powers, *labels, k=20) == cosine_map(*embeddings, *labels, k=20)


def test_equal_cosines_are_ordered_by_row_and_zero_rows_have_cosine_zero():
    query = np.array([[1, 0]], np.float32)
    gallery = np.array([[-1, 0], [0, 0], [0, 1], [0, -1], [2, 0]], np.float32)
    label = np.ones((1, 1), bool)
    for place, row in enumerate((4, 1, 2, 3, 0), start=1):
        only = np.zeros((5, 1), bool)
        only[row] = True
        assert cosine_map(query, gallery, label, only, k=5)["mAP_at_5"] == pytest.approx(1 / place)


def test_many_blocks_equal_one_but_for_rounding(monkeypatch):
    embeddings, labels = clustered(queries=30, gallery=60)
    whole = cosine_map(*embeddings, *labels, k=20)
    monkeypatch.setattr(hamming, "_PAIRS_PER_BLOCK", 240)
    assert cosine_map(*embeddings, *labels, k=20) == pytest.approx(whole, abs=1e-6)


def test_codes_of_plus_and_minus_one_rank_as_their_hamming_distance_does():
    embeddings, labels = clustered(queries=20, gallery=200, dim=16)
    bits = [array > 0 for array in embeddings]
    signs = [np.where(array, 1, -1).astype(np.float32) for array in bits]
    packed = [np.packbits(array, axis=1) for array in bits]
    codes = evaluate(*packed, *labels, bits=16, k=50).metrics
    floats = cosine_map(*signs, *labels, k=50)
    assert {name: codes[name] for name in floats} == pytest.approx(floats, abs=1e-12)


@given(arrays(np.float32, st.integers(1, 20), elements=st.floats(-2, 2, width=32)))
def test_falling_order_falls_as_the_value_rises(values):
    order = _falling_order(values).astype(np.int64)
    for a, x in zip(values.tolist(), order.tolist(), strict=True):
        for b, y in zip(values.tolist(), order.tolist(), strict=True):
            assert (a > b) == (x < y)
            assert (a == b) == (x == y)


@pytest.mark.parametrize(
    ("query", "gallery", "message"),
    [
        (np.ones((1, 2), np.float64), np.ones((1, 2), np.float32), "query embeddings must be a float32 array"),
        (np.ones((1, 2), np.float32), np.ones((1, 3), np.float32), "2 wide and gallery embeddings 3"),
        (np.ones((1, 2), np.float32), np.full((1, 2), np.nan, np.float32), "gallery embeddings hold NaN"),
        (np.ones((1, 0), np.float32), np.ones((1, 0), np.float32), "query embeddings must be"),
    ],
)
def test_embeddings_that_cannot_be_compared_are_refused(query, gallery, message):
    with pytest.raises(DataError, match=message):
        cosine_map(query, gallery, np.ones((1, 1), bool), np.ones((1, 1), bool), k=1)


def test_k_is_positive():
    embeddings, labels = clustered(queries=2, gallery=3)
    with pytest.raises(ConfigError, match="at least 1"):
        cosine_map(*embeddings, *labels, k=0)
