"""The drift test keeps its rate of false alarms, with bits that are correlated, rare or constant, and sees a shift."""

import numpy as np
import pytest

from nsh.core.codes import pack
from nsh.core.drift import compare, standardised
from nsh.core.reference import MIN_IMAGES, profile, tally
from nsh.errors import DataError

BITS, HELD_OUT, ANCHORS = 32, 1000, 64


def draw_bits(count, generator, *, shift=0.0):
    """Bits of a mixture of ten clusters in eight dimensions: correlated, with rates from .1 to .9."""
    fixed = np.random.default_rng(7)
    centres, planes, offsets = fixed.normal(size=(10, 8)), fixed.normal(size=(8, BITS)), fixed.normal(size=BITS)
    points = centres[generator.integers(10, size=count)] + 0.7 * generator.normal(size=(count, 8)) + shift
    return points @ planes + offsets > 0


def windows(count, images, *, shift=0.0):
    """Comparisons of `count` windows, each with a reference of its own."""
    generator = np.random.default_rng(3)
    gallery = pack(draw_bits(ANCHORS, generator))
    for _ in range(count):
        reference = profile(pack(draw_bits(HELD_OUT, generator)), gallery, bits=BITS)
        recent = tally(pack(draw_bits(images, generator, shift=shift)), reference.anchors, bits=BITS)
        yield compare(recent, reference)


@pytest.fixture(scope="module", params=[MIN_IMAGES, 200])
def unchanged(request):
    """200 windows of which none has drifted."""
    return list(windows(200, request.param))


def test_false_alarms_are_as_rare_as_stated(unchanged):
    """At a rate of .05, 10 of 200 windows are expected; 21 would be 3.5 standard deviations more; 5 and 7 were seen."""
    p_values = [drift.p_value for drift in unchanged]
    assert sum(p < 0.05 for p in p_values) < 21
    assert min(p_values) > 1e-5


def test_each_test_alone_has_about_the_stated_rate(unchanged):
    """Taken for independent, these bits would be called drift in more windows; 7 to 10 of 200 were seen."""
    for p_values in zip(*((drift.bits_p, drift.distance_p) for drift in unchanged), strict=True):
        assert 1 <= sum(p < 0.05 for p in p_values) < 23


def test_a_shift_is_seen():
    assert all(drift.alarm for drift in windows(5, 200, shift=0.5))


def test_far_images_with_the_same_rates_are_seen_by_their_distances():
    generator = np.random.default_rng(0)
    prototypes = generator.random((16, BITS)) < 0.5
    prototypes = np.concatenate([prototypes, ~prototypes])  # every rate is one half
    same = prototypes[generator.integers(32, size=600)]
    reference = profile(pack(same), pack(prototypes), bits=BITS)
    far = same[:200] ^ (generator.random((200, BITS)) < 0.5)
    drift = compare(tally(pack(far), reference.anchors, bits=BITS), reference)
    assert drift.distance > 5
    assert drift.alarm
    assert drift.bits_p > 1e-4


def test_queries_that_are_the_anchors_images_are_no_drift():
    """In a gallery of fewer images than a profile has anchors, every search with an image of the gallery is one."""
    generator = np.random.default_rng(5)
    gallery = pack(draw_bits(200, generator))
    reference = profile(pack(draw_bits(HELD_OUT, generator)), gallery, bits=BITS)
    drift = compare(tally(gallery, reference.anchors, bits=BITS), reference)
    assert drift.distance < -5
    assert not drift.alarm


def test_the_bit_that_changed_is_named():
    generator = np.random.default_rng(1)
    reference = profile(pack(draw_bits(HELD_OUT, generator)), pack(draw_bits(9, generator)), bits=BITS)
    bits = draw_bits(200, generator)
    bits[:, 11] = True
    scores = standardised(tally(pack(bits), reference.anchors, bits=BITS), reference)
    assert np.argmax(np.abs(scores)) == 11
    assert scores[11] > 5


def test_constant_bits_are_finite_and_no_alarm_until_they_change():
    codes = np.zeros((MIN_IMAGES, 1), np.uint8)
    reference = profile(codes, codes, bits=8)
    same = compare(tally(codes, reference.anchors, bits=8), reference)
    changed = compare(tally(codes | 1, reference.anchors, bits=8), reference)
    assert (same.bits, same.distance, same.alarm) == (0, 0, False)
    assert np.isfinite(changed[:5]).all()
    assert changed.alarm


def test_too_few_images_are_one_sentence():
    codes = np.zeros((MIN_IMAGES, 1), np.uint8)
    reference = profile(codes, codes, bits=8)
    with pytest.raises(DataError, match="found 49 recent images, at least 50 are needed"):
        compare(tally(codes[1:], reference.anchors, bits=8), reference)
