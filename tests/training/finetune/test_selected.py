"""A method's own choice of images is followed: its rows count, and the pixels are those of the right images."""

import numpy as np
import pytest
import torch
from tests.training.finetune.tiny import IMAGES, SIZE, make_images, make_loop, make_tiny

from nsh.core.errors import TrainingError
from nsh.methods import TrainingData
from nsh.training.augment import augment, view_generator
from nsh.training.finetune.selected import SelectedImages, select_images

PIXELS = make_images()


@pytest.fixture
def images(tmp_path):
    """All training images."""
    return make_loop(tmp_path).images


def drawn(row, view):
    return augment(PIXELS[row], view_generator(5, image=row, view=view), size=SIZE, resample="bilinear")


def test_pairs_have_the_selection_s_rows_and_the_chosen_images_views(images):
    selected = SelectedImages(images, np.array([2, 11, 19]))
    batches = [np.array([[0, 2], [1, 1]]), np.array([[2, 0]])]
    pairs = list(selected.read_pairs(batches, seed=5, epoch=1))
    assert [rows.tolist() for rows, _, _ in pairs] == [[0, 1], [2]]
    assert np.array_equal(pairs[0][1].numpy(), np.stack([drawn(2, 2), drawn(11, 2)]))
    assert np.array_equal(pairs[0][2].numpy(), np.stack([drawn(19, 3), drawn(11, 3)]))
    assert np.array_equal(pairs[1][2].numpy(), drawn(2, 3)[None])


def test_clean_images_are_the_chosen_ones(images):
    (pixels,) = SelectedImages(images, np.array([2, 11, 19])).read_clean([np.array([2, 0])])
    assert torch.equal(pixels, torch.from_numpy(np.stack([np.asarray(PIXELS[19]), np.asarray(PIXELS[2])])))


def test_data_that_was_taken_says_which_images_it_is_of_and_other_data_is_of_all(images):
    data = make_tiny().data
    assert select_images(images, data.take(np.array([4, 1]))).rows.tolist() == [4, 1]
    assert select_images(images, data).rows.tolist() == list(range(IMAGES))


def test_features_of_another_number_of_images_are_refused(images):
    data = make_tiny(10).data
    with pytest.raises(TrainingError, match="found 24 training images and features of 10, which do not say whose"):
        select_images(images, TrainingData(data.features, data.views))
