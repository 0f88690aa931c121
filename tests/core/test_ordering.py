import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nsh.core.ordering import smallest

few_values = st.tuples(st.integers(0, 4), st.integers(1, 30)).flatmap(
    lambda shape: arrays(np.uint32, shape, elements=st.sampled_from([0, 1, 2, 2**32 - 1]))
)


@given(few_values, st.integers(1, 40))
def test_smallest_is_the_head_of_a_stable_sort(values, k):
    columns, chosen = smallest(values, k=k)
    expected = np.argsort(values, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(chosen, np.take_along_axis(values, expected, axis=1))
    assert columns.dtype == np.int64
    assert chosen.dtype == np.uint32


def test_nothing_to_choose_from():
    columns, chosen = smallest(np.zeros((3, 0), np.uint32), k=5)
    assert columns.shape == chosen.shape == (3, 0)
