"""The reference profile: its counts against loops, and its text in an encoder file."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.references import add_profile, add_text

from nsh.core.codes import pack, unpack
from nsh.core.identity import find_metadata, read_contract
from nsh.core.reference import ANCHORS, MIN_IMAGES, REFERENCE_KEY, profile, read_reference, tally
from nsh.errors import CodesError

ENCODER = (Path(__file__).parents[1] / "golden" / "encoder.onnx").read_bytes()
BITS = read_contract(ENCODER, name="golden").bits


def draw_codes(count, *, bits=BITS, seed=0):
    """Codes whose bits follow three hidden numbers, so that they are correlated."""
    generator = np.random.default_rng(seed)
    mixing = np.random.default_rng(5).normal(size=(3, bits))
    noise = generator.normal(size=(count, bits))
    return pack(generator.normal(size=(count, 3)) @ mixing + noise > 0.3)


def test_counts_are_those_of_a_loop():
    codes, anchors = draw_codes(60), draw_codes(7, seed=1)
    rows, near = unpack(codes, bits=BITS), unpack(anchors, bits=BITS)
    ones, nearest = [0] * BITS, [0] * (BITS + 1)
    for row in rows:
        for bit in range(BITS):
            ones[bit] += int(row[bit])
        nearest[min(sum(a != b for a, b in zip(row, other, strict=True)) for other in near)] += 1
    counts = tally(codes, anchors, bits=BITS)
    assert counts.ones.tolist() == ones
    assert counts.nearest.tolist() == nearest
    assert counts.images == 60
    assert counts.empty_balls == sum(nearest[3:]) / 60


def test_moments_are_traces_of_powers_of_the_correlation_matrix():
    codes = draw_codes(400)
    correlation = np.corrcoef(unpack(codes, bits=BITS).T.astype(float))
    made = profile(codes, codes, bits=BITS)
    powers = [np.trace(np.linalg.matrix_power(correlation, power)) for power in (2, 3)]
    assert np.allclose(made.moments, powers, atol=1e-3)


def test_constant_bits_correlate_with_none():
    made = profile(np.zeros((MIN_IMAGES, 1), np.uint8), np.zeros((1, 1), np.uint8), bits=8)
    assert made.moments == (8, 8)


def test_a_file_gives_back_what_was_written_and_keeps_its_identity():
    held_out, gallery = draw_codes(200), draw_codes(ANCHORS + 9, seed=1)
    made = profile(held_out, gallery, bits=BITS)
    file = add_profile(ENCODER, held_out, gallery, bits=BITS)
    read = read_reference(file, bits=BITS, name="encoder.onnx")
    assert read.to_json() == made.to_json()
    assert (read.anchors == gallery[:ANCHORS]).all()
    assert read_contract(file, name="made") == read_contract(ENCODER, name="golden")


def test_too_few_images_make_none():
    assert profile(draw_codes(MIN_IMAGES - 1), draw_codes(9), bits=BITS) is None
    assert profile(draw_codes(MIN_IMAGES), draw_codes(0), bits=BITS) is None


def test_an_encoder_of_an_earlier_version_has_none():
    assert read_reference(ENCODER, bits=BITS, name="golden") is None


GOOD = json.loads(profile(draw_codes(80), draw_codes(9), bits=BITS).to_json())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        json.dumps(GOOD | {"schema": 2}),
        json.dumps(GOOD | {"ones": GOOD["ones"][1:]}),
        json.dumps(GOOD | {"ones": [81, *GOOD["ones"][1:]]}),
        json.dumps(GOOD | {"ones": [None, *GOOD["ones"][1:]]}),
        json.dumps(GOOD | {"nearest": [-1, 81, *[0] * (BITS - 1)]}),
        json.dumps(GOOD | {"nearest": [10**30, *[0] * BITS]}),
        json.dumps(GOOD | {"nearest": [1, *[0] * BITS], "ones": [0] * BITS}),
        json.dumps(GOOD | {"anchors": []}),
        json.dumps(GOOD | {"anchors": ["zz"]}),
        json.dumps(GOOD | {"anchors": ["00" * 99]}),
        json.dumps(GOOD | {"moments": [0, 1]}),
        json.dumps({name: value for name, value in GOOD.items() if name != "moments"}),
    ],
)
def test_a_damaged_profile_is_one_sentence(text):
    assert find_metadata(add_text(ENCODER, text), REFERENCE_KEY) == [text.encode()]
    with pytest.raises(CodesError, match=r"reference profile of some\.onnx is not readable .* export it again"):
        read_reference(add_text(ENCODER, text), bits=BITS, name="some.onnx")
