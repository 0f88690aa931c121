"""Retrieval figures of odd sizes, in blocks and threads, and what is refused."""

import tracemalloc

import numpy as np
import pytest
from tests.core.searches import LABEL_FREE, clustered, measure

import nsh.core.hamming as hamming
import nsh.core.metrics.evaluation as evaluation
from nsh.core.codes import pack
from nsh.core.metrics import CURVES, evaluate
from nsh.core.metrics import ranking as ranking_module
from nsh.errors import CodesError, ConfigError, DataError


def test_logits_that_are_not_the_codes_are_refused():
    codes, labels = clustered(queries=5, gallery=30, bits=16, noise=0.3)
    logits = np.where(codes[0], 1.0, -1.0)
    logits[3] = -logits[3]
    with pytest.raises(CodesError, match="the logits of 1 of 5 queries are not those of their codes"):
        measure(codes, labels, k=5, query_logits=logits)
    with pytest.raises(CodesError, match=r"found logits \[4, 16\] and codes \[5, 2\]"):
        measure(codes, labels, k=5, query_logits=logits[:4])


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
