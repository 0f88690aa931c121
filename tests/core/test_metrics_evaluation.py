import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

import nsh.core.hamming as hamming
import nsh.core.metrics.evaluation as evaluation
import nsh.core.reranking as reranking
from nsh.core.codes import pack
from nsh.core.hamming import distances
from nsh.core.metrics import CURVES, evaluate
from nsh.core.metrics import ranking as ranking_module
from nsh.errors import CodesError, ConfigError, DataError

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


def test_logits_that_are_not_the_codes_are_refused():
    codes, labels = clustered(queries=5, gallery=30, bits=16, noise=0.3)
    logits = np.where(codes[0], 1.0, -1.0)
    logits[3] = -logits[3]
    with pytest.raises(CodesError, match="the logits of 1 of 5 queries are not those of their codes"):
        measure(codes, labels, k=5, query_logits=logits)
    with pytest.raises(CodesError, match=r"found logits \[4, 16\] and codes \[5, 2\]"):
        measure(codes, labels, k=5, query_logits=logits[:4])


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


def test_distance_512_is_counted():
    codes = np.zeros((1, 512), bool), np.array([np.ones(512), np.zeros(512)], bool)
    labels = np.array([[True]]), np.array([[True], [False]])
    result = measure(codes, labels, k=1)
    assert result.metrics["mAP_at_1"] == 0.0
    assert result.curves["pr_lookup"]["recall"].tolist() == [0.0] * 512 + [1.0]


@pytest.mark.parametrize("bits", [127, 128, 255, 256])
def test_distances_at_the_edge_of_a_byte_are_counted(bits):
    codes = np.zeros((1, bits), bool), np.array([np.ones(bits), np.arange(bits) > 0], bool)
    result = measure(codes, (np.array([[True]]), np.array([[True], [False]])), k=2)
    assert result.metrics["mAP_at_2"] == 0.5
    assert result.curves["pr_lookup"]["recall"].tolist() == [0.0] * bits + [1.0]


def test_a_gallery_smaller_than_k_is_ranked_whole():
    codes, labels = clustered(queries=5, gallery=30, bits=16, noise=0.3)
    large, exact = measure(codes, labels, k=1000).metrics, measure(codes, labels, k=30).metrics
    for name in ("mAP", "mAP_min", "mAP_tie_aware", "P", "recall"):
        assert large[f"{name}_at_1000"] == exact[f"{name}_at_30"]


def test_curves_of_a_large_gallery_are_sampled_from_the_first_rank_to_the_last():
    codes, labels = clustered(queries=8, gallery=3_000, bits=32, noise=0.3)
    result = measure(codes, labels, k=1500)
    ranked, depth = result.curves["pr_ranking"], result.curves["precision_at_k"]
    assert len(ranked["rank"]) <= 200
    assert (ranked["rank"][0], ranked["rank"][-1]) == (1, 3_000)
    assert ranked["recall"][-1] == pytest.approx(1)
    assert depth["k"].tolist() == list(range(1, 1001))
    shared = ranked["rank"] <= 1000
    at = ranked["rank"][shared] - 1
    np.testing.assert_allclose(ranked["precision"][shared], depth["precision"][at], rtol=0, atol=1e-12)
    np.testing.assert_allclose(ranked["recall"][shared], depth["recall"][at], rtol=0, atol=1e-12)


def test_threads_change_nothing_and_progress_sees_every_block(monkeypatch):
    monkeypatch.setattr(hamming, "_PAIRS_PER_BLOCK", 1000)
    codes, labels = clustered(queries=50, gallery=200, bits=16, noise=0.3)
    seen = []

    def progress(iterable, *, desc="", total=None):
        for item in iterable:
            seen.append((desc, total))
            yield item

    one = measure(codes, labels, k=20)
    three = measure(codes, labels, k=20, threads=3, progress=progress)
    assert one.metrics == three.metrics
    for name, table in one.curves.items():
        for column, values in table.items():
            np.testing.assert_array_equal(values, three.curves[name][column])
    assert seen == [("evaluate", 10)] * 10


def test_blocks_change_no_more_than_rounding(monkeypatch):
    codes, labels = clustered(queries=50, gallery=200, bits=16, noise=0.3)
    whole = measure(codes, labels, k=20).metrics
    monkeypatch.setattr(hamming, "_PAIRS_PER_BLOCK", 1000)
    assert measure(codes, labels, k=20).metrics == pytest.approx(whole, abs=1e-12)


def test_galleries_too_large_for_narrow_keys_are_ranked_alike(monkeypatch):
    codes, labels = clustered(queries=10, gallery=300, bits=16, noise=0.3)
    narrow = measure(codes, labels, k=20).metrics
    monkeypatch.setattr(ranking_module, "_NARROW_KEY", 0)
    assert measure(codes, labels, k=20).metrics == narrow


def test_a_failing_block_is_not_swallowed(monkeypatch):
    def fail(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(evaluation, "rank_block", fail)
    codes, labels = clustered(queries=5, gallery=30, bits=16, noise=0.3)
    with pytest.raises(MemoryError, match="no room"):
        measure(codes, labels, k=5, threads=2)


def test_memory_does_not_hold_the_table_of_distances():
    codes, labels = clustered(queries=4_000, gallery=20_000, bits=32, noise=0.3)
    packed = [pack(bits) for bits in codes]
    tracemalloc.start()
    try:
        evaluate(*packed, *labels, bits=32, k=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 48 * 2**20  # one byte a pair alone would be 76 MiB


def test_without_labels_only_label_free_figures_are_given():
    codes, labels = clustered(queries=20, gallery=300, bits=16, noise=0.1)
    bare = measure(codes, (None, None), k=10)
    assert bare.metrics.keys() == LABEL_FREE
    labelled = measure(codes, labels, k=10).metrics
    assert bare.metrics == {name: labelled[name] for name in LABEL_FREE}
    assert {name: tuple(table) for name, table in bare.curves.items()} == CURVES
    assert all(len(column) == 0 for table in bare.curves.values() for column in table.values())


def test_labels_on_one_side_only_are_refused():
    codes, labels = clustered(queries=2, gallery=3, bits=8, noise=0.1)
    with pytest.raises(ConfigError, match="only one of query and gallery"):
        measure(codes, (labels[0], None), k=1)


def test_labels_that_do_not_fit_are_refused():
    codes, labels = clustered(queries=2, gallery=3, bits=8, noise=0.1)
    with pytest.raises(DataError, match=r"\[3, classes\]"):
        measure(codes, (labels[0], labels[1][:2]), k=1)


@pytest.mark.parametrize("options", [{"k": 0}, {"k": 1, "threads": 0}])
def test_k_and_threads_are_positive(options):
    codes, labels = clustered(queries=2, gallery=3, bits=8, noise=0.1)
    with pytest.raises(ConfigError, match="at least 1"):
        measure(codes, labels, **options)


def test_no_codes_are_nothing_to_measure():
    codes, labels = clustered(queries=2, gallery=0, bits=8, noise=0.1)
    with pytest.raises(CodesError, match="no gallery codes"):
        measure(codes, labels, k=1)


def test_codes_of_another_length_are_refused():
    codes, labels = clustered(queries=2, gallery=3, bits=8, noise=0.1)
    with pytest.raises(CodesError, match="codes of 16 bits"):
        evaluate(pack(codes[0]), pack(codes[1]), *labels, bits=16, k=1)
