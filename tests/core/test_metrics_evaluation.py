"""Retrieval figures are their definitions, and what other libraries find."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score
from tests.core.searches import LABEL_FREE, Oracle, clustered, measure, searches

import nsh.core.reranking as reranking
from nsh.core.codes import pack
from nsh.core.hamming import distances
from nsh.core.metrics import CURVES


@given(searches())
def test_every_figure_is_its_definition(search):
    codes, labels, k = search
    metrics = measure(codes, labels, k=k).metrics
    oracle = Oracle(*codes, labels, k=k)
    ball_precision, _, empty = oracle.ball(2)
    expected = {
        f"mAP_at_{k}": oracle.mean_average_precision(),
        f"mAP_min_at_{k}": oracle.mean_average_precision_min(),
        f"P_at_{k}": oracle.precision(oracle.k),
        f"recall_at_{k}": oracle.recall(oracle.k),
        "P_at_H2": ball_precision,
        "empty_ball_share": empty,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert metrics.keys() == expected.keys() | LABEL_FREE | {f"mAP_tie_aware_at_{k}"}


@given(searches(), st.integers(1, 12), st.data())
def test_the_reranked_figure_is_its_definition_and_changes_no_other(search, length, data):
    """Quarters: their sums are exact, and many are equal."""
    codes, labels, k = search
    sure = data.draw(arrays(np.float32, codes[0].shape, elements=st.sampled_from([0.25, 0.5, 0.75])))
    logits = np.where(codes[0], sure, -sure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reranking, "SHORTLIST", length)
        metrics = measure(codes, labels, k=k, query_logits=logits).metrics
    oracle = Oracle(*codes, labels, k=k)
    for row, ranking in enumerate(oracle.rankings):
        scores = [
            sum(float(logit) if bit else -float(logit) for logit, bit in zip(logits[row], codes[1][item], strict=True))
            for _, item, _ in ranking
        ]
        places = sorted(range(min(max(length, k), len(ranking))), key=lambda place: (-scores[place], place))
        oracle.rankings[row] = [ranking[place] for place in places]
    assert metrics.pop(f"mAP_at_{k}_reranked") == pytest.approx(oracle.mean_average_precision(), abs=1e-12)
    assert metrics == measure(codes, labels, k=k).metrics


@given(searches())
def test_the_mean_is_over_what_each_query_has(search):
    codes, labels, k = search
    found = measure(codes, labels, k=k)
    assert found.average_precision.shape == (len(codes[0]),)
    assert found.average_precision.mean() == pytest.approx(found.metrics[f"mAP_at_{k}"], abs=1e-12)
    for row, own in enumerate(found.average_precision):
        alone = measure((codes[0][row : row + 1], codes[1]), (labels[0][row : row + 1], labels[1]), k=k)
        assert alone.metrics[f"mAP_at_{k}"] == own


@given(searches())
def test_every_curve_is_its_definition(search):
    codes, labels, k = search
    curves = measure(codes, labels, k=k).curves
    oracle = Oracle(*codes, labels, k=k)
    ranks = range(1, len(codes[1]) + 1)
    assert {name: tuple(table) for name, table in curves.items()} == CURVES
    depth, ranked, lookup = (curves[name] for name in ("precision_at_k", "pr_ranking", "pr_lookup"))
    assert depth["k"].tolist() == ranked["rank"].tolist() == list(ranks)
    for table in (depth, ranked):
        assert table["precision"] == pytest.approx([oracle.precision(rank) for rank in ranks], abs=1e-12)
        assert table["recall"] == pytest.approx([oracle.recall(rank) for rank in ranks], abs=1e-12)
    assert lookup["radius"].tolist() == list(range(codes[0].shape[1] + 1))
    balls = np.array([oracle.ball(radius) for radius in lookup["radius"]])
    for column, values in zip(("precision", "recall", "empty_share"), balls.T, strict=True):
        assert lookup[column] == pytest.approx(values, abs=1e-12)


@given(searches())
def test_figures_are_finite_floats_within_their_range(search):
    codes, labels, k = search
    for name, value in measure(codes, labels, k=k).metrics.items():
        assert type(value) is float
        assert 0 <= value <= (len(codes[1]) if name == "unique_codes" else 1 + 1e-12)


@given(searches(), st.randoms(use_true_random=False))
def test_tie_aware_map_ignores_the_gallerys_order(search, random):
    codes, labels, k = search
    order = random.sample(range(len(codes[1])), len(codes[1]))
    name = f"mAP_tie_aware_at_{k}"
    before = measure(codes, labels, k=k).metrics[name]
    after = measure((codes[0], codes[1][order]), (labels[0], labels[1][order]), k=k).metrics[name]
    assert after == pytest.approx(before, abs=1e-12)


@given(searches())
def test_min_is_never_above_precision_where_enough_is_relevant(search):
    codes, labels, _ = search
    smallest = (labels[0][:, None] & labels[1][None]).any(axis=2).sum(axis=1).min()
    if smallest:
        metrics = measure(codes, labels, k=int(smallest)).metrics
        assert metrics[f"mAP_min_at_{smallest}"] <= metrics[f"P_at_{smallest}"] + 1e-12


def test_one_hit_at_rank_one_is_a_map_of_one_and_a_min_of_a_half():
    codes = np.array([[0, 0, 0]], bool), np.array([[0, 0, 0], [0, 0, 1], [1, 1, 1]], bool)
    labels = np.array([[True, False]]), np.array([[True, False], [False, True], [True, False]])
    metrics = measure(codes, labels, k=2).metrics
    assert (metrics["mAP_at_2"], metrics["mAP_min_at_2"], metrics["P_at_2"]) == (1.0, 0.5, 0.5)


def test_scikit_learn_and_torchmetrics_agree():
    """torchmetrics gave its figure once: to have it here would cost every process that trains two seconds.

    The mean of `retrieval_average_precision` of torchmetrics 1.9.0, top_k=50, over the same ranking.
    """
    codes, labels = clustered(queries=12, gallery=400, bits=24, noise=0.3)
    k = 50
    table = distances(pack(codes[0]), pack(codes[1])).astype(int)
    relevant = (labels[0][:, None] & labels[1][None]).any(axis=2)
    sklearn_values = []
    for row in range(12):
        order = np.argsort(table[row], kind="stable")
        sklearn_values.append(average_precision_score(relevant[row, order[:k]], -np.arange(k)))
    value = measure(codes, labels, k=k).metrics["mAP_at_50"]
    assert value == pytest.approx(np.mean(sklearn_values), abs=1e-12)
    assert value == pytest.approx(0.48058317601680756, abs=1e-6)


def test_a_label_sorted_gallery_biases_the_ranked_figure_but_not_the_tie_aware_one():
    codes, labels = clustered(queries=100, gallery=20_000, bits=16, noise=0.2)
    by_label = np.argsort(labels[1].argmax(axis=1), kind="stable")
    shuffled = measure(codes, labels, k=1000).metrics
    ordered = measure((codes[0], codes[1][by_label]), (labels[0], labels[1][by_label]), k=1000).metrics
    assert ordered["mAP_tie_aware_at_1000"] == pytest.approx(shuffled["mAP_tie_aware_at_1000"], abs=1e-12)
    assert abs(ordered["mAP_at_1000"] - ordered["mAP_tie_aware_at_1000"]) > 0.005
    assert abs(shuffled["mAP_at_1000"] - shuffled["mAP_tie_aware_at_1000"]) < 0.002


def test_tie_aware_is_the_mean_over_shuffled_galleries():
    codes, labels = clustered(queries=20, gallery=500, bits=8, noise=0.25)
    random, values = np.random.default_rng(3), []
    for _ in range(200):
        order = random.permutation(500)
        shuffled = measure((codes[0], codes[1][order]), (labels[0], labels[1][order]), k=60)
        values.append(shuffled.metrics["mAP_at_60"])
    error = np.std(values) / math.sqrt(len(values))
    assert measure(codes, labels, k=60).metrics["mAP_tie_aware_at_60"] == pytest.approx(np.mean(values), abs=4 * error)
