"""What reaches the network: the pixels that were drawn, the same whatever the workers, the order and the ranks."""

import threading

import numpy as np
import pytest
import torch
from tests.training.finetune.tiny import SIZE, make_images

from nsh.core.preprocess import to_input
from nsh.system.progress import no_progress
from nsh.training.finetune.augment_batch import augment
from nsh.training.finetune.augmentations import draw_views
from nsh.training.finetune.fabric import open_fabric
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.images import TrainingImages, _prefetch

PIXELS = make_images(10)


@pytest.fixture
def prepare(tmp_path):
    def make(workers=1, load=lambda name: PIXELS[int(name)]):
        ids = [str(row) for row in range(10)]
        files = ImageFiles(ids=ids, digest="noise", load=load, size=SIZE, resample="bilinear", workers=workers)
        return TrainingImages.prepare(files, cache=tmp_path, fabric=open_fabric("cpu"), progress=no_progress)

    return make


def drawn(row, *, view, epoch, seed=5):
    """A view made alone."""
    draws = draw_views(np.full((10, 2), SIZE, np.int32), seed=seed, epoch=epoch, view=view).take(np.array([row]))
    return augment(torch.from_numpy(np.array(PIXELS[row]))[None], draws, size=SIZE)[0]


def pair(*rows):
    return np.array([row if isinstance(row, tuple) else (row, row) for row in rows])


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pair_is_a_view_of_each_of_its_images(prepare, workers):
    batches = [pair(3, (1, 8)), pair(9, 0), pair((0, 9), (4, 4))]
    found = list(prepare(workers).read_pairs(iter(batches), seed=5, epoch=2))
    assert [rows.tolist() for rows, _, _ in found] == [[3, 1], [9, 0], [0, 4]]
    assert {rows.dtype for rows, _, _ in found} == {torch.int64}
    for batch, (_, first, second) in zip(batches, found, strict=True):
        for place, (left, right) in enumerate(batch.tolist()):
            assert torch.equal(first[place], drawn(left, view=0, epoch=2))
            assert torch.equal(second[place], drawn(right, view=1, epoch=2))


def test_no_view_comes_twice(prepare):
    images = prepare()
    pairs = [next(images.read_pairs([pair(3)], seed=5, epoch=epoch)) for epoch in range(4)]
    views = [view.numpy().tobytes() for _, *two in pairs for view in two]
    assert len(set(views)) == 8


def test_clean_images_are_what_the_encoder_sees(prepare):
    found = list(prepare().read_clean([np.array([2, 7]), np.array([0])]))
    assert [pixels.shape for pixels in found] == [(2, SIZE, SIZE, 3), (1, SIZE, SIZE, 3)]
    assert np.array_equal(found[0][1].numpy(), to_input(PIXELS[7], size=SIZE, resample="bilinear"))
    assert np.array_equal(found[1][0].numpy(), to_input(PIXELS[0], size=SIZE, resample="bilinear"))


def test_a_second_run_decodes_nothing_for_its_views(prepare):
    before = list(prepare().read_pairs([pair(3, 1)], seed=5, epoch=0))
    after = list(prepare(load=None).read_pairs([pair(3, 1)], seed=5, epoch=0))
    assert torch.equal(before[0][1], after[0][1])


def test_no_thread_is_left_when_reading_ends_early(prepare):
    images, before = prepare(), set(threading.enumerate())
    for batches in (
        images.read_pairs([pair(row) for row in range(9)], seed=5, epoch=0),
        images.read_clean([np.array([1])]),
    ):
        next(batches)
        batches.close()
        del batches
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("count", [0, 1, 4])
def test_each_item_comes_when_the_next_one_is_begun(count):
    made = []
    led = _prefetch(made.append(item) or item for item in range(count))
    for item in range(count):
        assert next(led) == item
        assert made == list(range(min(count, item + 2)))
    assert list(led) == []
