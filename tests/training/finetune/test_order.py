"""Which images are drawn, and that seed and epoch alone decide."""

import numpy as np
import pytest

from nsh.training.finetune.order import cut_batches, draw_batches, hold_out, shard


@pytest.mark.parametrize("count", [0, 1, 7, 20])
def test_every_image_is_either_trained_on_or_held_out(count):
    training, held_out = hold_out(20, count=count, seed=3)
    assert len(held_out) == count
    assert sorted([*training, *held_out]) == list(range(20))
    again = hold_out(20, count=count, seed=3)
    assert training.tolist() == again[0].tolist()
    assert held_out.tolist() == again[1].tolist()


def test_another_seed_holds_out_other_images():
    assert hold_out(100, count=10, seed=0)[1].tolist() != hold_out(100, count=10, seed=1)[1].tolist()


def test_an_epoch_goes_through_every_image_once_in_full_batches():
    rows = np.arange(100, 123)
    batches = draw_batches(rows, batch=5, seed=0, epoch=0)
    drawn = np.concatenate(batches)
    assert [len(batch) for batch in batches] == [5, 5, 5, 5]
    assert len(set(drawn)) == 20
    assert set(drawn) <= set(rows)


def test_seed_and_epoch_alone_decide():
    def flat(seed, epoch):
        return np.concatenate(draw_batches(np.arange(30), batch=5, seed=seed, epoch=epoch)).tolist()

    reference = flat(1, 4)
    np.random.default_rng().random(5)
    assert flat(1, 4) == reference
    assert flat(2, 4) != reference
    assert flat(1, 5) != reference


def test_batches_are_cut_in_order():
    assert [batch.tolist() for batch in cut_batches(np.arange(5), batch=2)] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_the_ranks_parts_are_the_batch(ranks):
    rows = np.random.default_rng(0).permutation(10)
    parts = [shard(rows, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    assert np.concatenate(parts).tolist() == rows.tolist()
