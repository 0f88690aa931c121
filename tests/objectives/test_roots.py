"""Square roots: near the exact ones at every size, with a gradient, and none by MKL anywhere in a training."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nsh.objectives.roots import square_root


@given(st.floats(2.0**-100, 2.0**100, width=32))
def test_roots_are_within_two_units_in_the_last_place(value):
    exact = np.float32(math.sqrt(value))
    found = square_root(torch.tensor([value] * 9)).numpy()
    assert (np.abs(found - exact) <= 2 * np.spacing(exact)).all()


@pytest.mark.parametrize(("value", "root"), [(0.0, 0.0), (1.0, 1.0), (4.0, 2.0), (math.inf, math.inf)])
def test_roots_of_whole_squares_zero_and_infinity_are_exact(value, root):
    for dtype in (torch.float32, torch.float64):
        assert float(square_root(torch.tensor(value, dtype=dtype))) == root


def test_the_gradient_is_the_root_s():
    values = torch.tensor([0.25, 1.0, 9.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(square_root, values)
