"""Long lists: values of the list written out, gradients by finite differences, what a queue holds."""

import math

import pytest
import torch
from torch.nn import functional

from nsh.objectives.heads.binary import straight_through
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce
from nsh.objectives.sorting.sorted_queue import Queue, level_cosines, level_nce


def draw(count, length, bits, d_z, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    queries, items = gaussian(count, bits).tanh(), gaussian(length, bits).tanh()
    return (
        queries,
        items,
        functional.normalize(gaussian(length, d_z), dim=1),
        functional.normalize(gaussian(count, d_z), dim=1),
    )


def slow_loss(scores, items, anchors, *, m, tau_s, tau_c):
    """Eqs. 1, 4, 5 and 6 list by list, rank by rank, with plain numbers."""
    total = 0.0
    for row, anchor in zip(scores, anchors, strict=True):
        kappas = []
        for value in sorted(row, reverse=True):
            weights = [math.exp(-abs(value - other) / tau_s) for other in row]
            mixed = [sum(w * item[d] for w, item in zip(weights, items, strict=True)) for d in range(len(anchor))]
            dot = sum(a * b for a, b in zip(mixed, anchor, strict=True))
            kappas.append(math.exp(dot / math.sqrt(sum(a * a for a in mixed)) / tau_c))
        rest = sum(kappas[m:])
        total -= sum(math.log(kappas[j] / (kappas[j] + rest)) for j in range(m)) / m
    return total / len(scores)


@pytest.mark.parametrize(("m", "tau_s", "tau_c"), [(1, 0.1, 0.1), (3, 0.05, 0.2), (11, 0.5, 1.0), (16, 0.1, 0.3)])
@pytest.mark.parametrize("bits", [3, 12])
def test_the_loss_equals_the_double_loop(bits, m, tau_s, tau_c):
    queries, codes, items, anchors = draw(5, 17, bits, 4)
    scores = affinity(straight_through(queries), straight_through(codes))
    cosines, ranks = level_cosines(scores, items, anchors, tau_s=tau_s)
    expected = slow_loss(scores.tolist(), items.tolist(), anchors.tolist(), m=m, tau_s=tau_s, tau_c=tau_c)
    assert level_nce(cosines, ranks, m=m, tau_c=tau_c).item() == pytest.approx(expected, rel=1e-9)
    assert ranks.sum(dim=1).tolist() == [17.0] * 5
    assert ranks.shape[1] <= bits + 1


def test_on_a_list_as_long_as_the_batch_it_is_nsh():
    queries, codes, items, anchors = draw(9, 9, 8, 5)
    leaves = [tensor.requires_grad_() for tensor in (queries, codes, items, anchors)]
    scores = affinity(straight_through(queries), straight_through(codes))
    ours = level_nce(*level_cosines(scores, items, anchors, tau_s=0.1), m=3, tau_c=0.2)
    nsh = sorted_nce(sorted_cosines(scores, items, anchors, tau_s=0.1), m=3, tau_c=0.2)
    torch.testing.assert_close(ours, nsh)
    of_ours, of_nsh = (torch.autograd.grad(loss, leaves, retain_graph=True) for loss in (ours, nsh))
    for one, other in zip(of_ours[:2], of_nsh[:2], strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_equal_finite_differences():
    inputs = [tensor.requires_grad_() for tensor in draw(3, 7, 4, 3)]

    def relaxed(queries, codes, items, anchors):
        return level_nce(*level_cosines(affinity(queries, codes), items, anchors, tau_s=0.3), m=2, tau_c=0.5)

    assert torch.autograd.gradcheck(relaxed, inputs, eps=1e-7, atol=1e-5)


def test_tied_and_cancelling_items_give_finite_gradients():
    latents = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(3, 1).requires_grad_()
    queries, codes = torch.ones(2, 4, requires_grad=True), torch.ones(6, 4, requires_grad=True)
    anchors = torch.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    loss = level_nce(*level_cosines(affinity(queries, codes), latents, anchors, tau_s=0.1), m=2, tau_c=0.1)
    loss.backward()
    assert all(bool(leaf.grad.isfinite().all()) for leaf in (latents, queries, codes, anchors))


@pytest.mark.parametrize("length", [1, 4, 5, 8])
def test_a_queue_holds_the_last_it_was_given(length):
    queue, given = Queue(length, bits=2, d_z=1), []
    for step in range(6):
        codes = torch.full((3, 2), float(step)) + torch.arange(3)[:, None] / 10
        codes_now, latents_now = queue.after(torch.full((1, 2), -1.0), torch.full((1, 1), -1.0))
        kept = given[-length:]
        assert codes_now[0].tolist() == [-1.0, -1.0]
        assert sorted(codes_now[1:, 0].tolist()) == pytest.approx(sorted(kept))
        assert torch.equal(codes_now[:, :1], latents_now)  # a code stays beside its latent
        queue.put(codes, codes[:, :1])
        given += codes[:, 0].tolist()


def test_a_queue_keeps_no_gradient_and_travels_in_the_state():
    queue, again = Queue(4, bits=2, d_z=3), Queue(4, bits=2, d_z=3)
    queue.put(torch.ones(3, 2, requires_grad=True), torch.ones(3, 3, requires_grad=True))
    again.load_state_dict(queue.state_dict())
    codes, latents = again.after(torch.zeros(1, 2), torch.zeros(1, 3))
    assert codes.shape == (4, 2)
    assert not codes.requires_grad
    assert not latents.requires_grad
