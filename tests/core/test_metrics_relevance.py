import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nsh.core.metrics.relevance import check_labels, fill_relevance, label_masks
from nsh.errors import DataError

class_counts = st.integers(1, 18) | st.sampled_from([31, 32, 33, 63, 64, 65, 80, 200])


@st.composite
def two_label_sets(draw):
    classes = draw(class_counts)
    sparse = arrays(np.bool_, (draw(st.integers(1, 5)), classes), fill=st.just(False))
    return draw(sparse), draw(arrays(np.bool_, (draw(st.integers(1, 5)), classes), fill=st.just(False)))


@given(two_label_sets())
def test_relevant_means_one_shared_label(sets):
    query, gallery = sets
    found = np.empty((len(query), len(gallery)), bool)
    fill_relevance(label_masks(query), label_masks(gallery), out=found)
    expected = [[any(a and b for a, b in zip(q, g, strict=True)) for g in gallery] for q in query]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("classes", "dtype", "words"),
    [(8, np.uint8, 1), (10, np.uint16, 1), (21, np.uint32, 1), (64, np.uint64, 1), (80, np.uint64, 2)],
)
def test_masks_are_as_narrow_as_they_can_be(classes, dtype, words):
    masks = label_masks(np.eye(classes, dtype=bool))
    assert masks.dtype == dtype
    assert masks.shape == (words, classes)


@pytest.mark.parametrize(
    ("query", "gallery", "message"),
    [
        (np.ones((2, 3), int), np.ones((4, 3), bool), "query labels must be a bool array"),
        (np.ones((2, 3), bool), np.ones((5, 3), bool), r"gallery labels must be a bool array \[4, classes\]"),
        (np.ones(2, bool), np.ones((4, 3), bool), "query labels must be"),
        (np.ones((2, 0), bool), np.ones((4, 0), bool), "query labels must be"),
        (np.ones((2, 3), bool), np.ones((4, 2), bool), "know 3 classes and gallery labels 2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(query, gallery, message):
    with pytest.raises(DataError, match=message):
        check_labels(query, gallery, counts=(2, 4))
