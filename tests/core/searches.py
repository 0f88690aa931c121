"""Searches to measure, and every figure of them from its definition."""

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nsh.core.codes import pack
from nsh.core.metrics import evaluate

LABEL_FREE = {"bit_balance", "constant_bits_share", "unique_codes", "code_entropy", "empty_ball_share"}


def mean(values):
    return math.fsum(values) / len(values)


class Oracle:
    """Every retrieval figure from its definition, one query and one rank at a time."""

    def __init__(self, query, gallery, labels, *, k):
        query_labels, gallery_labels = (rows.tolist() for rows in labels)
        self.rankings, self.totals = [], []
        for code, own in zip(query.tolist(), query_labels, strict=True):
            ranking = []
            for row, (other, theirs) in enumerate(zip(gallery.tolist(), gallery_labels, strict=True)):
                distance = sum(a != b for a, b in zip(code, other, strict=True))
                ranking.append((distance, row, any(a and b for a, b in zip(own, theirs, strict=True))))
            self.rankings.append(sorted(ranking))
            self.totals.append(sum(relevant for _, _, relevant in ranking))
        self.k = min(k, len(gallery))

    def hits(self, ranking, rank):
        return sum(relevant for _, _, relevant in ranking[:rank])

    def precisions(self, ranking):
        return sum(self.hits(ranking, r) / r for r in range(1, self.k + 1) if ranking[r - 1][2])

    def mean_average_precision(self):
        found = [self.hits(ranking, self.k) for ranking in self.rankings]
        return mean([self.precisions(r) / n if n else 0.0 for r, n in zip(self.rankings, found, strict=True)])

    def mean_average_precision_min(self):
        return mean(
            [self.precisions(r) / min(n, self.k) if n else 0.0 for r, n in zip(self.rankings, self.totals, strict=True)]
        )

    def precision(self, rank):
        return mean([self.hits(ranking, rank) / rank for ranking in self.rankings])

    def recall(self, rank):
        pairs = zip(self.rankings, self.totals, strict=True)
        return mean([self.hits(ranking, rank) / total if total else 0.0 for ranking, total in pairs])

    def ball(self, radius):
        """Mean precision and recall of the balls, and the share of empty ones."""
        precisions, recalls, empty = [], [], 0
        for ranking, total in zip(self.rankings, self.totals, strict=True):
            inside = [relevant for distance, _, relevant in ranking if distance <= radius]
            empty += not inside
            precisions.append(sum(inside) / len(inside) if inside else 0.0)
            recalls.append(sum(inside) / total if total else 0.0)
        return mean(precisions), mean(recalls), empty / len(self.rankings)


@st.composite
def searches(draw):
    """Few short codes, so that equal distances, queries without a relevant item and empty balls all happen."""
    bits, classes = draw(st.integers(1, 14)), draw(st.integers(1, 3))
    queries, gallery = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    codes = [draw(arrays(np.bool_, (count, bits))) for count in (queries, gallery)]
    labels = [draw(arrays(np.bool_, (count, classes))) for count in (queries, gallery)]
    return codes, labels, draw(st.integers(1, 15))


def measure(codes, labels, *, k, **options):
    query, gallery = codes
    return evaluate(pack(query), pack(gallery), *labels, bits=query.shape[1], k=k, **options)


def clustered(*, queries, gallery, bits, noise, seed=0, classes=10):
    """Codes scattered around one random centre a class, and their labels."""
    random = np.random.default_rng(seed)
    centres = random.random((classes, bits)) < 0.5
    codes, labels = [], []
    for count in (queries, gallery):
        owner = random.integers(0, classes, count)
        codes.append(centres[owner] ^ (random.random((count, bits)) < noise))
        labels.append(np.eye(classes, dtype=bool)[owner])
    return codes, labels
