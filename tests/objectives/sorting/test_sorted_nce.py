"""SortedNCE: the mandatory tests that need no network, against loops straight from Eqs. 5 and 6."""

import math

import pytest
import torch
from torch.nn import functional

from nsh.objectives.heads.binary import straight_through
from nsh.objectives.sorting.softsort import affinity, permutation
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce, sorted_products


def draw(count, bits, d_z, seed, dtype=torch.float64):
    """Hidden codes and unit latents of two views that resemble each other."""
    generator = torch.Generator().manual_seed(seed)

    def gaussian(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    hidden, latent = gaussian(count, bits), gaussian(count, d_z)
    hiddens = [(hidden + 0.3 * gaussian(count, bits)).tanh() for _ in range(2)]
    latents = [functional.normalize(latent + 0.5 * gaussian(count, d_z), dim=1) for _ in range(2)]
    return *hiddens, *latents


def explicit_cosines(shares, first, second):
    """Eq. 5 with E built, then the true cosine of Eq. 6."""
    gathered = torch.einsum("ijk,kd->ijd", shares, first)
    return torch.einsum("ijd,id->ij", functional.normalize(gathered, dim=2), second)


def slow_cosines(scores, first, second, tau_s):
    """Eqs. 1, 4 and 5 with plain numbers: sort, weigh, gather, take the cosine with the anchor."""
    count, rows = len(scores), []
    for i in range(count):
        row = []
        for value in sorted(scores[i], reverse=True):
            weights = [math.exp(-abs(value - other) / tau_s) for other in scores[i]]
            mixed = [
                sum(weight / sum(weights) * latent[d] for weight, latent in zip(weights, first, strict=True))
                for d in range(len(first[0]))
            ]
            dot = sum(a * b for a, b in zip(mixed, second[i], strict=True))
            row.append(dot / math.sqrt(sum(a * a for a in mixed)) / math.sqrt(sum(b * b for b in second[i])))
        rows.append(row)
    return rows


def slow_loss(cosines, m, tau_c):
    """The double sum of Eq. 6, term by term."""
    n, total = len(cosines), 0.0
    for i in range(n):
        for j in range(m):
            positive = math.exp(cosines[i][j] / tau_c)
            negatives = sum(math.exp(cosines[i][k] / tau_c) for k in range(m, n))
            total += math.log(positive / (positive + negatives))
    return -total / (m * n)


def loss_of(hidden_first, hidden_second, first, second, *, m=2, tau_s=0.1, tau_c=0.1, code=straight_through):
    scores = affinity(code(hidden_first), code(hidden_second))
    return sorted_nce(sorted_cosines(scores, first, second, tau_s=tau_s), m=m, tau_c=tau_c)


@pytest.mark.parametrize(("count", "bits"), [(6, 4), (9, 16)])
@pytest.mark.parametrize(("m", "tau_s", "tau_c"), [(1, 0.1, 0.1), (2, 0.5, 0.3), (4, 16.0, 0.1), (3, 0.03, 1.0)])
def test_t5_loss_equals_the_double_loop(count, bits, m, tau_s, tau_c):
    hidden_first, hidden_second, first, second = draw(count, bits, 5, seed=count)
    scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
    expected = slow_loss(slow_cosines(scores.tolist(), first.tolist(), second.tolist(), tau_s), m, tau_c)
    actual = loss_of(hidden_first, hidden_second, first, second, m=m, tau_s=tau_s, tau_c=tau_c)
    assert actual.item() == pytest.approx(expected, abs=1e-12)


def test_t3_gradient_of_the_relaxed_loss_equals_finite_differences():
    inputs = [tensor.requires_grad_() for tensor in draw(6, 5, 4, seed=3)]

    def relaxed(*tensors):
        return loss_of(*tensors, code=lambda hidden: hidden, tau_s=0.3, tau_c=0.5)

    assert torch.autograd.gradcheck(relaxed, inputs, eps=1e-7, atol=1e-5)


@pytest.mark.parametrize(("count", "m"), [(5, 1), (9, 2), (12, 11)])
def test_t6_every_positive_meets_n_minus_m_negatives_and_no_other_positive(count, m):
    cosines = torch.rand(count, count, generator=torch.Generator().manual_seed(m), dtype=torch.float64) * 2 - 1
    terms = []
    for j in range(m):
        logits = torch.cat([cosines[:, j : j + 1], cosines[:, m:]], dim=1) / 0.1
        assert logits.shape == (count, count - m + 1)
        terms.append(functional.cross_entropy(logits, torch.zeros(count, dtype=torch.long)))
    torch.testing.assert_close(sorted_nce(cosines, m=m, tau_c=0.1), torch.stack(terms).mean())


@pytest.mark.parametrize("bits", [4, 32])
def test_t7_the_order_of_the_batch_changes_neither_loss_nor_gradient(bits):
    tensors = draw(14, bits, 6, seed=8)
    order = torch.randperm(14, generator=torch.Generator().manual_seed(9))
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    shuffled = [tensor[order].clone().requires_grad_() for tensor in tensors]
    loss, other = loss_of(*leaves), loss_of(*shuffled)
    torch.testing.assert_close(loss, other)
    gradients, others = torch.autograd.grad(loss, leaves), torch.autograd.grad(other, shuffled)
    for gradient, other_gradient in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient[order], other_gradient)


def test_t8_duplicated_images_give_finite_gradients():
    leaves = [tensor[:1].repeat(8, 1).requires_grad_() for tensor in draw(8, 16, 6, seed=10, dtype=torch.float32)]
    loss = loss_of(*leaves)
    for gradient in torch.autograd.grad(loss, leaves):
        assert bool(gradient.isfinite().all())
    assert loss.item() == pytest.approx(math.log(7), abs=1e-5)


def test_latents_that_cancel_in_the_mean_give_finite_gradients():
    hidden = torch.zeros(2, 4)
    latent = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    leaves = [tensor.clone().requires_grad_() for tensor in (hidden, hidden, latent, latent)]
    for gradient in torch.autograd.grad(loss_of(*leaves, m=1), leaves):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize(("count", "bits"), [(20, 8), (50, 32), (64, 64)])
def test_t9_cosines_without_e_equal_those_of_the_explicit_e(count, bits):
    hidden_first, hidden_second, first, second = draw(count, bits, 128, seed=bits, dtype=torch.float32)
    scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
    expected = explicit_cosines(permutation(scores, 0.1), first, second)
    torch.testing.assert_close(sorted_cosines(scores, first, second, tau_s=0.1), expected, atol=1e-5, rtol=0)


def test_products_equal_those_of_the_explicit_e_and_are_shorter_than_cosines():
    hidden_first, hidden_second, first, second = draw(20, 8, 128, seed=5)
    scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
    expected = torch.einsum("ijd,id->ij", torch.einsum("ijk,kd->ijd", permutation(scores, 0.1), first), second)
    products = sorted_products(scores, first, second, tau_s=0.1)
    torch.testing.assert_close(products, expected)
    assert bool((products.abs() <= sorted_cosines(scores, first, second, tau_s=0.1).abs()).all())


def test_t9_gradients_without_ties_equal_those_of_the_explicit_e():
    hidden_first, hidden_second, first, second = (tensor.requires_grad_() for tensor in draw(16, 8, 12, seed=4))
    leaves = [hidden_first, hidden_second, first, second]
    scores = affinity(hidden_first, hidden_second)
    explicit = sorted_nce(explicit_cosines(permutation(scores, 0.1), first, second), m=2, tau_c=0.1)
    fast = loss_of(*leaves, code=lambda hidden: hidden)
    for left, right in zip(torch.autograd.grad(fast, leaves), torch.autograd.grad(explicit, leaves), strict=True):
        torch.testing.assert_close(left, right)


def test_t9_gradients_with_ties_are_the_mean_of_the_explicit_ones_over_all_orders_of_the_ties():
    """List 0 has three items on one level that holds ranks 2 to 4: with m = 2 one of them is a positive."""
    _, _, first, second = draw(5, 2, 6, seed=12)
    scores = torch.tensor(
        [
            [0.9, 0.5, 0.5, 0.5, 0.1],
            [0.1, 0.9, 0.6, 0.4, 0.2],
            [0.3, 0.2, 0.9, 0.5, 0.1],
            [0.1, 0.2, 0.3, 0.9, 0.4],
            [0.5, 0.4, 0.3, 0.2, 0.9],
        ],
        dtype=torch.float64,
        requires_grad=True,
    )
    fast = sorted_nce(sorted_cosines(scores, first, second, tau_s=0.1), m=2, tau_c=0.1)
    (actual,) = torch.autograd.grad(fast, scores)
    expected = torch.zeros_like(actual)
    for tied in [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)]:
        order = scores.argsort(dim=1, descending=True)
        order[0] = torch.tensor([0, *tied, 4])
        levels = scores.gather(1, order)
        distance = (levels.unsqueeze(2) - scores.unsqueeze(1)).abs()
        cosines = explicit_cosines((-distance / 0.1).softmax(dim=2), first, second)
        loss = sorted_nce(cosines, m=2, tau_c=0.1)
        torch.testing.assert_close(loss, fast)
        expected += torch.autograd.grad(loss, scores)[0] / 6
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(("count", "m"), [(50, 2), (10, 9), (7, 3)])
@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0])
def test_t10_equal_cosines_give_log_of_the_number_of_logits(count, m, value):
    loss = sorted_nce(torch.full((count, count), value, dtype=torch.float64), m=m, tau_c=0.1)
    assert loss.item() == pytest.approx(math.log(count - m + 1), abs=1e-12)


@pytest.mark.parametrize("tau_s", [0.1, 0.5])
def test_t10_at_random_initialisation_the_loss_is_below_that_and_the_literal_temperature_stays_near(tau_s):
    tensors = draw(50, 32, 64, seed=2)
    limit = math.log(50 - 2 + 1)
    loss, literal = loss_of(*tensors, tau_s=tau_s).item(), loss_of(*tensors, tau_s=32.0).item()
    assert loss < limit - 0.3
    assert limit - 0.1 < literal < limit


def test_large_cosines_over_small_temperatures_do_not_overflow():
    cosines = torch.linspace(1, -1, 20).repeat(20, 1).requires_grad_()
    loss = sorted_nce(cosines, m=2, tau_c=1e-3)
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert bool(cosines.grad.isfinite().all())
