import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nsh.core.codes import MAX_BITS, binarize, check_codes, check_length, code_bytes, first_bits, pack, unpack
from nsh.errors import CodesError

lengths = st.integers(1, 70) | st.sampled_from([127, 128, 129, 511, 512])
bit_arrays = st.tuples(st.integers(0, 5), lengths).flatmap(lambda shape: arrays(np.bool_, shape))


def pack_by_hand(bits):
    """Bit b of a code is worth 2 ** (7 - b % 8) in byte b // 8."""
    codes = np.zeros((bits.shape[0], (bits.shape[1] + 7) // 8), dtype=np.uint8)
    for row in range(bits.shape[0]):
        for bit in range(bits.shape[1]):
            codes[row, bit // 8] += int(bits[row, bit]) * 2 ** (7 - bit % 8)
    return codes


@pytest.mark.parametrize(("bits", "size"), [(1, 1), (8, 1), (9, 2), (64, 8), (65, 9), (512, 64), (np.int64(12), 2)])
def test_code_bytes_rounds_up(bits, size):
    assert code_bytes(bits) == size


@pytest.mark.parametrize("bits", [0, -1, 513, 8.0, "8", None, True])
def test_code_bytes_refuses_other_lengths(bits):
    with pytest.raises(CodesError, match="from 1 to 512"):
        code_bytes(bits)


def test_a_bit_is_one_only_above_zero():
    logits = np.array([[-1.0, -0.0, 0.0, 1e-45, np.inf, -np.inf]], dtype=np.float32)
    assert binarize(logits).tolist() == [[False, False, False, True, True, False]]


def test_all_zero_logits_give_the_zero_code():
    assert pack(binarize(np.zeros((3, 12), dtype=np.float32))).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_binarize_takes_any_float(dtype):
    assert binarize(np.array([[2, -2]], dtype=dtype)).tolist() == [[True, False]]


@pytest.mark.parametrize(
    "logits",
    [np.ones(8, np.float32), np.ones((2, 8), np.int64), np.ones((2, 0), np.float32), np.ones((1, 513), np.float32)],
)
def test_binarize_refuses_what_are_no_logits(logits):
    with pytest.raises(CodesError):
        binarize(logits)


def test_binarize_refuses_nan():
    with pytest.raises(CodesError, match="NaN"):
        binarize(np.array([[0.5, np.nan]]))


def test_the_first_bit_is_the_most_significant():
    assert pack(np.array([[1, 0, 0, 0, 0, 0, 0, 0]], dtype=bool)).tolist() == [[128]]
    assert pack(np.array([[0, 0, 0, 0, 0, 0, 0, 1, 1]], dtype=bool)).tolist() == [[1, 128]]


@given(bit_arrays)
def test_pack_is_the_hand_made_layout_and_unpack_undoes_it(bits):
    codes = pack(bits)
    np.testing.assert_array_equal(codes, pack_by_hand(bits))
    assert codes.dtype == np.uint8
    restored = unpack(codes, bits=bits.shape[1])
    np.testing.assert_array_equal(restored, bits)
    assert restored.dtype == np.bool_


@given(bit_arrays)
def test_rows_are_packed_apart(bits):
    codes = pack(bits)
    for row in range(len(bits)):
        np.testing.assert_array_equal(pack(bits[row : row + 1])[0], codes[row])


@pytest.mark.parametrize("bits", [np.ones(8, bool), np.ones((1, 8), np.uint8), np.ones((1, 0), bool)])
def test_pack_refuses_what_are_no_bits(bits):
    with pytest.raises(CodesError):
        pack(bits)


@pytest.mark.parametrize(
    "codes",
    [np.zeros((2, 3), np.uint8), np.zeros((2, 1), np.uint8), np.zeros((2, 2), np.int8), np.zeros(2, np.uint8)],
)
def test_unpack_refuses_another_length_or_type_and_says_both(codes):
    with pytest.raises(CodesError, match=r"codes of 12 bits must be a uint8 array \[n, 2\], found"):
        unpack(codes, bits=12)


def test_a_set_padding_bit_is_refused():
    little_endian = np.packbits(np.ones((1, 12), bool), axis=1, bitorder="little")
    with pytest.raises(CodesError, match="least significant bit first"):
        check_codes(little_endian, bits=12)
    check_codes(np.full((1, 2), 255, np.uint8), bits=16)
    check_codes(np.array([[255, 240]], np.uint8), bits=12)


def test_no_code_at_all_is_fine():
    assert unpack(np.zeros((0, 64), np.uint8), bits=MAX_BITS).shape == (0, MAX_BITS)


@given(bit_arrays, st.data())
def test_the_first_bits_are_those_of_the_packed_bits(bits, data):
    length = data.draw(st.integers(1, bits.shape[1]))
    codes = pack(bits)
    before = codes.copy()
    cut = first_bits(codes, bits=length)
    assert np.array_equal(cut, pack(bits[:, :length]))
    assert np.array_equal(codes, before)


def test_codes_have_no_more_first_bits_than_bytes():
    with pytest.raises(CodesError, match=r"codes of 17 bits or more must be a uint8 array, found uint8 \[1, 2\]"):
        first_bits(np.zeros((1, 2), np.uint8), bits=17)


@pytest.mark.parametrize(
    ("bits", "lengths", "message"),
    [
        (0, [8, 16], "the codes can be cut to 8, 16"),
        (12, (8, 16), "found 12 bits, the codes can be cut to 8, 16: choose one of these"),
        (32, [8, 16], "the codes can be cut to 8, 16"),
        (8, [64], r"found 8 bits, the codes have 64 and cannot be cut: .* \(method nsh_nested\)"),
    ],
)
def test_codes_are_cut_where_the_encoder_says_alone(bits, lengths, message):
    for length in lengths:
        check_length(length, lengths)
    with pytest.raises(CodesError, match=message):
        check_length(bits, lengths)
