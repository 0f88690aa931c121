import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nsh.core.metrics.balance as balance
from nsh.core.codes import pack
from nsh.errors import CodesError


def figures_by_hand(bits):
    rows = bits.tolist()
    shares = [sum(row[bit] for row in rows) / len(rows) for bit in range(len(rows[0]))]
    entropies = [-sum(p * math.log2(p) for p in (share, 1 - share) if p) for share in shares]
    return {
        "bit_balance": sum(1 - abs(2 * share - 1) for share in shares) / len(shares),
        "constant_bits_share": sum(share in (0, 1) for share in shares) / len(shares),
        "unique_codes": len({tuple(row) for row in rows}),
        "code_entropy": sum(entropies) / len(shares),
    }


@given(st.tuples(st.integers(1, 9), st.integers(1, 40)).flatmap(lambda shape: arrays(np.bool_, shape)))
def test_bit_figures_are_the_loops(bits):
    figures = balance.bit_figures(pack(bits), bits=bits.shape[1])
    assert figures == pytest.approx(figures_by_hand(bits), abs=1e-12)
    assert all(type(value) is float and math.isfinite(value) for value in figures.values())


def test_even_bits_and_collapsed_bits():
    even = pack(np.array([[0, 1], [1, 0]], bool))
    assert balance.bit_figures(even, bits=2) == {
        "bit_balance": 1.0, "constant_bits_share": 0.0, "unique_codes": 2.0, "code_entropy": 1.0
    }  # fmt: skip
    collapsed = balance.bit_figures(np.zeros((5, 8), np.uint8), bits=64)
    assert collapsed == {"bit_balance": 0.0, "constant_bits_share": 1.0, "unique_codes": 1.0, "code_entropy": 0.0}
    assert math.copysign(1, collapsed["code_entropy"]) == 1


def test_many_blocks_equal_one(monkeypatch):
    codes = np.random.default_rng(0).integers(0, 256, (50, 3), dtype=np.uint8)
    whole = balance.bit_figures(codes, bits=24)
    monkeypatch.setattr(balance, "_ROWS_PER_BLOCK", 7)
    assert balance.bit_figures(codes, bits=24) == whole


def test_codes_of_another_length_are_refused():
    with pytest.raises(CodesError, match="codes of 16 bits"):
        balance.bit_figures(np.zeros((5, 8), np.uint8), bits=16)
