"""Taking per class against a slow statement of the protocol, over many data sets of many labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.data.take import take_first, take_per_class
from nsh.errors import ConfigError

LABELS = st.lists(st.sets(st.integers(0, 3), max_size=3).map(sorted).map(tuple), min_size=1, max_size=60)


class Images:
    def __init__(self, labels: list[tuple[int, ...]] | None, classes: int = 4) -> None:
        self.labels = labels
        self.classes = None if labels is None else tuple("abcd"[:classes])


def slow_take(labels: list[tuple[int, ...]], order: list[int], share: int) -> tuple[list[int], list[int]]:
    """One image after the other; its first class with quota left takes it."""
    counts = [0, 0, 0, 0]
    taken = []
    for image in order:
        for row in range(4):
            if row in labels[image] and counts[row] < share:
                counts[row] += 1
                taken.append(image)
                break
    return taken, counts


@given(labels=LABELS, share=st.integers(1, 4), seed=st.integers(0, 9))
def test_the_first_class_with_quota_left_takes_the_image(labels: list, share: int, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(labels))
    taken, counts = slow_take(labels, order.tolist(), share)
    if min(counts) < share:
        with pytest.raises(ConfigError, match=f"asks for {share} images of each class, there are only"):
            take_per_class(Images(labels), order, 4 * share)
    else:
        assert take_per_class(Images(labels), order, 4 * share).tolist() == taken


@given(labels=LABELS, seed=st.integers(0, 9))
def test_a_larger_size_keeps_what_a_smaller_one_takes(labels: list, seed: int) -> None:
    labels = labels + [(row,) for row in range(4) for _ in range(3)]
    order = np.random.default_rng(seed).permutation(len(labels))
    small, large = (set(take_per_class(Images(labels), order, 4 * share).tolist()) for share in (2, 3))
    assert small < large


def test_the_order_of_classes_decides_and_not_that_of_an_images_labels() -> None:
    labels = [(0, 1), (0, 1), (0,), (1,)]
    assert take_per_class(Images(labels, classes=2), np.array([2, 0, 1, 3]), 2).tolist() == [2, 0]  # 0 stands for b
    with pytest.raises(ConfigError, match="there are only: b 0 "):  # both go to a, nothing is left for b
        take_per_class(Images([(0, 1), (0, 1), (0,)], classes=2), np.array([0, 1]), 4)


def test_what_cannot_be_shared_evenly_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot take 10 images evenly from 4 classes: ask for a multiple of 4"):
        take_per_class(Images([(0,)]), np.array([0]), 10)


def test_without_labels_there_are_no_classes_to_share_among() -> None:
    with pytest.raises(ConfigError, match="per_class needs labels"):
        take_per_class(Images(None), np.array([0]), 4)


def test_the_first_are_taken_as_they_come() -> None:
    assert take_first(Images(None), np.array([3, 1, 2]), 2).tolist() == [3, 1]
