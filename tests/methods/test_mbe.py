"""Bi-half: the layer against a sort written out, its gradient, and the loss."""

import pytest
import torch

from nsh.methods.mbe import Mbe, halve
from nsh.objectives.graphs.cosine_structure import cosine_structure

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "gamma": 6.0}


def slow_halve(hidden):
    codes = [[-1.0] * hidden.shape[1] for _ in hidden]
    for bit in range(hidden.shape[1]):
        column = hidden[:, bit].tolist()
        for row in sorted(range(len(column)), key=lambda row: -column[row])[: len(column) // 2]:
            codes[row][bit] = 1.0
    return torch.tensor(codes)


@pytest.mark.parametrize("count", [1, 2, 7, 8])
def test_the_layer_equals_the_written_out_sort(count):
    hidden = torch.randn(count, 5, generator=torch.Generator().manual_seed(count))
    codes = halve(hidden, gamma=6.0)
    assert torch.equal(codes, slow_halve(hidden))
    assert torch.equal((codes == 1).sum(0), torch.full((5,), count // 2))


def test_equal_values_are_parted_in_half_too():
    codes = halve(torch.zeros(6, 3), gamma=6.0)
    assert codes.sum(0).tolist() == [0, 0, 0]
    assert torch.equal(codes, slow_halve(torch.zeros(6, 3)))


def test_the_gradient_is_handed_on_with_a_pull_towards_the_code():
    hidden = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.arange(12.0).reshape(4, 3)
    codes = halve(hidden, gamma=6.0)
    (codes * weights).sum().backward()
    torch.testing.assert_close(hidden.grad, weights + 6 * (hidden.detach() - codes.detach()) / 12)


def test_the_loss_is_the_structure_of_the_halved_bits(draw_clusters):
    data = draw_clusters()
    objective = Mbe(**PARAMETERS).objective(data, bits=6, seed=0)
    inputs, targets = torch.from_numpy(data.features[:16]).split(8)
    expected = cosine_structure(slow_halve(objective.head(inputs)), targets)
    torch.testing.assert_close(objective.terms(inputs, targets)["loss"], expected)


def test_the_pull_of_the_parameters_reaches_the_weights(draw_clusters):
    data = draw_clusters()
    objective = Mbe(**PARAMETERS | {"gamma": 3.0}).objective(data, bits=6, seed=0)
    features = torch.from_numpy(data.features[:8])
    objective.terms(features, features)["loss"].backward()
    hidden = objective.head(features).detach()
    codes = slow_halve(hidden).requires_grad_()
    cosine_structure(codes, features).backward()
    of_hidden = codes.grad + 3 * (hidden - codes.detach()) / hidden.numel()
    expected = of_hidden.T @ objective.head.standardise(features)
    torch.testing.assert_close(objective.head.linear.weight.grad, expected)


def test_in_service_a_code_does_not_depend_on_the_other_images(draw_clusters):
    data = draw_clusters()
    head = Mbe(**PARAMETERS).objective(data, bits=6, seed=0).head
    features = torch.from_numpy(data.features)
    torch.testing.assert_close(head(features)[:1], head(features[:1]))
