"""Which images are drawn, and that seed and epoch alone decide."""

import numpy as np
import pytest

from nsh.training.finetune.order import cut_batches, draw_batches, hold_out, pair, shard


def itself(rows, generator):
    return rows


def anyone(rows, generator):
    """Of 30 images."""
    return generator.integers(30, size=len(rows))


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
    batches = draw_batches(rows, partners=itself, batch=5, seed=0, epoch=0)
    drawn, others = np.concatenate(batches).T
    assert np.array_equal(others, drawn)
    assert [len(batch) for batch in batches] == [5, 5, 5, 5]
    assert len(set(drawn)) == 20
    assert set(drawn) <= set(rows)


@pytest.mark.parametrize("partners", [itself, anyone])
def test_seed_and_epoch_alone_decide(partners):
    def flat(seed, epoch):
        return np.concatenate(draw_batches(np.arange(30), partners=partners, batch=5, seed=seed, epoch=epoch)).tolist()

    reference = flat(1, 4)
    np.random.rand(5)  # the global generator plays no part
    assert flat(1, 4) == reference
    assert flat(2, 4) != reference
    assert flat(1, 5) != reference


def test_batches_are_cut_in_order():
    assert [batch.tolist() for batch in cut_batches(np.arange(5), batch=2)] == [[0, 1], [2, 3]]


def test_partners_change_neither_who_is_trained_on_nor_when():
    alone, paired = (
        np.concatenate(draw_batches(np.arange(30), partners=partners, batch=5, seed=1, epoch=4))
        for partners in (itself, anyone)
    )
    assert np.array_equal(alone[:, 0], paired[:, 0])
    assert len(set((paired[:, 1] - paired[:, 0]).tolist())) > 10


def test_a_partner_on_the_other_side_is_replaced_by_the_image_itself():
    rows = np.array([4, 7, 1, 9])
    pairs = pair(rows, partners=lambda rows, generator: np.array([7, 2, 9, 0]), generator=np.random.default_rng(0))
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[4, 7], [7, 7], [1, 9], [9, 9]]


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_the_ranks_parts_are_the_batch(ranks):
    rows = np.random.default_rng(0).permutation(10)
    parts = [shard(rows, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    assert np.concatenate(parts).tolist() == rows.tolist()
    pairs = np.stack([rows, rows[::-1]], axis=1)
    assert np.concatenate([shard(pairs, rank=rank, ranks=ranks) for rank in range(ranks)]).tolist() == pairs.tolist()
