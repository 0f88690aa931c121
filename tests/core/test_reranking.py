"""A shortlist in the order of the query's logits, from the definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nsh.core.codes import MAX_BITS, binarize, pack, unpack
from nsh.core.hamming import distances, rank
from nsh.core.reranking import SHORTLIST, rerank, shortlist_length
from nsh.errors import CodesError


def exact_score(logits, bits) -> Fraction:
    """The sum over bits, one at a time, without rounding."""
    signs = (1 if bit else -1 for bit in bits)
    return sum((sign * Fraction(float(logit)) for sign, logit in zip(signs, logits, strict=True)), Fraction())


def floats(width):
    limit = float(np.finfo(f"float{width}").max) / MAX_BITS
    return st.floats(-limit, limit, width=width)


@st.composite
def shortlists(draw, values):
    bits, count = draw(st.integers(1, 20)), draw(st.integers(0, 12))
    return draw(arrays(np.float32, bits, elements=values)), draw(arrays(np.bool_, (count, bits)))


@given(shortlists(st.integers(-4, 4).map(lambda value: value / 4)))
def test_the_order_is_by_falling_score_and_equal_scores_stay(shortlist):
    """Quarters: their sums are exact, and many are equal."""
    logits, bits = shortlist
    expected = [exact_score(logits, row) for row in bits]
    places, scores = rerank(logits, pack(bits))
    assert places.tolist() == sorted(range(len(bits)), key=lambda row: (-expected[row], row))
    assert scores.tolist() == [float(expected[row]) for row in places]


@given(shortlists(floats(32)))
def test_any_logits_are_summed_almost_exactly(shortlist):
    logits, bits = shortlist
    places, scores = rerank(logits, pack(bits))
    unit = Fraction(float(np.abs(logits).max())) / 2**43  # the largest error of one logit
    for place, score in zip(places, scores, strict=True):
        assert abs(Fraction(score) - exact_score(logits, bits[place])) <= len(logits) * unit
    assert (np.diff(scores) <= 0).all()
    assert sorted(places) == list(range(len(bits)))


@given(shortlists(floats(32)), st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_the_bits(shortlist, random):
    logits, bits = shortlist
    shuffled = random.sample(range(len(logits)), len(logits))
    before, after = rerank(logits, pack(bits)), rerank(logits[shuffled], pack(bits[:, shuffled]))
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


@given(shortlists(floats(32)), st.integers(-20, 20))
def test_the_unit_of_the_logits_does_not_matter(shortlist, exponent):
    logits, bits = shortlist
    places, scores = rerank(logits.astype(np.float64), pack(bits))
    again, larger = rerank(np.ldexp(logits.astype(np.float64), exponent), pack(bits))
    assert np.array_equal(places, again)
    assert np.array_equal(larger, np.ldexp(scores, exponent))


@given(shortlists(st.just(0.5)), st.data())
def test_equally_sure_bits_keep_the_order_of_distances(shortlist, data):
    logits, bits = shortlist
    logits = logits * np.where(data.draw(arrays(np.bool_, len(logits))), 1, -1)
    query, codes = pack(binarize(logits[None])), pack(bits)
    rows, away = rank(query, codes, k=len(bits) or 1)
    places, scores = rerank(logits, codes[rows[0]])
    assert places.tolist() == list(range(len(bits)))
    assert np.array_equal(scores, len(logits) / 2 - away[0])


def test_the_query_s_own_code_has_the_highest_score():
    random = np.random.default_rng(0)
    logits, codes = random.standard_normal(64).astype(np.float32), random.integers(0, 256, (500, 8), dtype=np.uint8)
    own = pack(binarize(logits[None]))
    codes[77] = own
    places, scores = rerank(logits, codes)
    assert places[0] == 77
    assert scores[0] == pytest.approx(np.abs(logits).sum(dtype=np.float64), rel=1e-12)
    nearest = rank(own, codes, k=1)[0][0, 0]
    assert nearest == 77


def test_a_score_falls_by_twice_the_logits_of_the_bits_that_differ():
    random = np.random.default_rng(1)
    logits, codes = random.standard_normal(48), random.integers(0, 256, (300, 6), dtype=np.uint8)
    own = binarize(logits[None])
    differing = unpack(codes, bits=48) != own
    places, scores = rerank(logits, codes)
    assert np.allclose(scores, np.abs(logits).sum() - 2 * (differing * np.abs(logits)).sum(axis=1)[places])
    assert np.array_equal(differing.sum(axis=1), distances(pack(own), codes)[0])


def test_equal_codes_stay_together_whatever_the_logits():
    random = np.random.default_rng(2)
    logits = (random.standard_normal(512) * 10.0 ** random.integers(-8, 8, 512)).astype(np.float32)
    codes = random.integers(0, 256, (40, 64), dtype=np.uint8)[random.integers(0, 40, 1000)]
    places, scores = rerank(logits, codes)
    for score in np.unique(scores):
        same = places[scores == score]
        assert (np.diff(same) > 0).all()
        assert len(np.unique(codes[same], axis=0)) == 1


def test_the_largest_and_smallest_floats_are_summed():
    for value in (np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal):
        _, scores = rerank(np.full(MAX_BITS, value), np.array([[255] * 64, [0] * 64], np.uint8))
        assert scores.tolist() == [MAX_BITS * float(value), -MAX_BITS * float(value)]


def test_without_logits_that_differ_from_zero_nothing_moves():
    places, scores = rerank(np.zeros(8, np.float32), np.array([[3], [1], [2]], np.uint8))
    assert (places.tolist(), scores.tolist()) == ([0, 1, 2], [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (np.array([0.5, np.nan]), "NaN or infinite"),
        (np.array([0.5, np.inf]), "NaN or infinite"),
        (np.array([1, 2]), r"float array \[bits\], found int64 \[2\]"),
        (np.zeros((1, 2)), r"found float64 \[1, 2\]"),
        (np.zeros(9), r"codes of 9 bits must be a uint8 array \[n, 2\]"),
        (np.zeros(0), "a code cannot have 0 bits"),
    ],
)
def test_what_is_no_query_is_refused(logits, message):
    with pytest.raises(CodesError, match=message):
        rerank(logits, np.zeros((3, 1), np.uint8))


def test_a_shortlist_has_a_thousand_codes_or_as_many_as_are_wanted():
    assert [shortlist_length(k) for k in (1, SHORTLIST, SHORTLIST + 1)] == [SHORTLIST, SHORTLIST, SHORTLIST + 1]
