import math

import numpy as np
import pytest

from nsh.core.codes import pack
from nsh.core.hamming import rank
from nsh.core.metrics import PROTOCOL, evaluate
from nsh.core.metrics.estimate import SHARE, estimate_map, find_related
from nsh.errors import DataError


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b) or 1)


def related_by_hand(query, gallery):
    found = []
    for row in query:
        order = sorted(range(len(gallery)), key=lambda item: -cosine(row, gallery[item]))
        found.append(order[: round(SHARE * len(gallery))])
    return found


def estimate_by_hand(codes, related, *, k):
    k, total, near, every = min(k, round(SHARE * len(codes[1]))), 0.0, [], []
    for code, wanted in zip(codes[0], related, strict=True):
        order = sorted(range(len(codes[1])), key=lambda row: (int((code != codes[1][row]).sum()), row))[:k]
        precisions, hits = [], 0
        for place, row in enumerate(order, start=1):
            if row in wanted:
                hits += 1
                precisions.append(hits / place)
        total += sum(precisions) / hits if hits else 0
        every += [int((code != other).sum()) for other in codes[1]]
        near += [int((code != codes[1][row]).sum()) for row in order]
    return total / len(related) * (1 - sum(near) / len(near) / (sum(every) / len(every))) ** 0.5


@pytest.fixture
def embeddings():
    random = np.random.default_rng(0)
    return [random.normal(size=(count, 5)).astype(np.float32) for count in (7, 250)]


@pytest.mark.parametrize("k", [1, 20, 1000])
def test_the_estimate_is_the_loops(embeddings, k):
    random = np.random.default_rng(1)
    codes = [random.random((len(rows), 12)) < 0.5 for rows in embeddings]
    related = related_by_hand(*(rows.astype(np.float64).tolist() for rows in embeddings))
    found = find_related(*embeddings)
    assert [np.flatnonzero(row).tolist() for row in np.unpackbits(found, axis=1, count=250)] == list(
        map(sorted, related)
    )
    estimate = estimate_map((pack(codes[0]), pack(codes[1])), found, k=k).value
    assert estimate == pytest.approx(estimate_by_hand(codes, related, k=k), abs=1e-12)


def test_it_is_the_map_with_labels_times_the_root_of_tightness_where_groups_are_as_large_as_the_share():
    """Twenty groups of 25, each along an axis of its own: a query's group is what is related to it."""
    random = np.random.default_rng(2)
    labels = [np.eye(20, dtype=bool)[np.arange(count) % 20] for count in (7, 500)]
    embeddings = [(owner + random.normal(size=owner.shape) / 50).astype(np.float32) for owner in labels]
    codes = [pack(random.random((len(owner), 8)) < 0.5) for owner in labels]
    estimate = estimate_map((codes[0], codes[1]), find_related(*embeddings), k=60).value  # looks at 25
    near, every = (rank(*codes, k=k)[1].mean() for k in (25, 500))
    truth = evaluate(*codes, *labels, bits=8, k=25).metrics["mAP_at_25"]
    assert estimate == pytest.approx(truth * math.sqrt(1 - near / every), abs=1e-12)


@pytest.mark.parametrize("gallery", [0, 255])
def test_codes_that_are_all_equal_are_worth_nothing(embeddings, gallery):
    codes = np.zeros((7, 1), np.uint8), np.full((250, 1), gallery, np.uint8)
    assert estimate_map(codes, find_related(*embeddings), k=20).value == 0


def test_what_does_not_fit_is_refused(embeddings):
    query, gallery = embeddings
    with pytest.raises(DataError, match="embed the images again"):
        find_related(query[:, :4], gallery)
    with pytest.raises(DataError, match="NaN"):
        find_related(query * np.float32(np.nan), gallery)
    with pytest.raises(DataError, match=r"found codes of 6 x 250 images"):
        estimate_map((np.zeros((6, 1), np.uint8), np.zeros((250, 1), np.uint8)), find_related(query, gallery), k=5)


def test_the_protocol_says_how_many_are_related():
    assert f"the nearest {100 * SHARE:g} % of the gallery" in PROTOCOL["estimate"]
