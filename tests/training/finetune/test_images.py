"""What reaches the network: the pixels that were drawn, the same whatever the workers, the order and the ranks."""

import threading
import time

import numpy as np
import pytest
from tests.training.finetune.tiny import SIZE, make_images

from nsh.core.preprocess import to_input
from nsh.training.augment import augment, view_generator
from nsh.training.finetune.images import TrainingImages

PIXELS = make_images(10)


def images(workers=1, load=lambda name: PIXELS[int(name)]):
    ids = [str(row) for row in range(10)]
    return TrainingImages(ids=ids, load=load, size=SIZE, resample="bilinear", workers=workers)


def drawn(row, view, seed=5):
    return augment(PIXELS[row], view_generator(seed, image=row, view=view), size=SIZE, resample="bilinear")


@pytest.mark.parametrize("workers", [1, 3])
def test_an_epoch_sees_the_next_two_views_of_every_image(workers):
    batches = [np.array([[3, 3], [1, 1]]), np.array([[9, 9], [0, 0]])]
    pairs = list(images(workers).read_pairs(batches, seed=5, epoch=2))
    assert [rows.tolist() for rows, _, _ in pairs] == [[3, 1], [9, 0]]
    for rows, first, second in pairs:
        for position, row in enumerate(rows.tolist()):
            assert np.array_equal(first[position].numpy(), drawn(row, 4))
            assert np.array_equal(second[position].numpy(), drawn(row, 5))


def test_of_a_pair_one_image_gives_its_first_view_and_the_other_its_second():
    ((rows, first, second),) = images().read_pairs([np.array([[3, 8], [8, 0]])], seed=5, epoch=2)
    assert rows.tolist() == [3, 8]
    assert np.array_equal(first.numpy(), np.stack([drawn(3, 4), drawn(8, 4)]))
    assert np.array_equal(second.numpy(), np.stack([drawn(8, 5), drawn(0, 5)]))


def test_an_image_is_loaded_once_for_its_two_views():
    loaded = []

    def load(name):
        loaded.append(name)
        return PIXELS[int(name)]

    list(images(load=load).read_pairs([np.array([[3, 3], [8, 0]])], seed=5, epoch=0))
    assert sorted(loaded) == ["0", "3", "8"]


def test_no_view_comes_twice():
    pairs = [next(images().read_pairs([np.array([[3, 3]])], seed=5, epoch=epoch)) for epoch in range(4)]
    views = [view.numpy().tobytes() for _, *two in pairs for view in two]
    assert len(set(views)) == 8


def test_clean_images_are_what_the_encoder_sees():
    (pixels,) = images().read_clean([np.array([2, 7])])
    assert pixels.shape == (2, SIZE, SIZE, 3)
    assert np.array_equal(pixels[1].numpy(), to_input(PIXELS[7], size=SIZE, resample="bilinear"))


def test_a_few_batches_are_read_ahead_and_no_more():
    read = []

    def load(name):
        read.append(int(name))
        return PIXELS[int(name)]

    batches = images(load=load).read_clean(np.array([row]) for row in range(10))
    next(batches)
    deadline = time.monotonic() + 10
    while len(read) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert read == [0, 1, 2]
    batches.close()
    assert not [thread for thread in threading.enumerate() if "ThreadPoolExecutor" in thread.name]
