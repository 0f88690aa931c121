"""Heads with a hidden layer against loops."""

import pytest
import torch

from nsh.objectives.heads.perceptron import BalancedPerceptronHead, PerceptronHead


def draw_features(count=40, dim=5):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0)) * 3 + 2


def test_logits_equal_the_loop():
    features = draw_features(6)
    head = PerceptronHead(5, 3, hidden=4)
    head.fit_standardisation(features)
    inputs = ((features - features.mean(0)) / features.std(0, correction=0)).tolist()
    v, c, w, d = (one.tolist() for layer in (head.hidden, head.linear) for one in (layer.weight, layer.bias))
    hidden = [[max(0, sum(a * b for a, b in zip(v[h], row, strict=True)) + c[h]) for h in range(4)] for row in inputs]
    expected = [[sum(a * b for a, b in zip(w[k], row, strict=True)) + d[k] for k in range(3)] for row in hidden]
    torch.testing.assert_close(head(features), torch.tensor(expected), atol=1e-5, rtol=1e-5)


def test_a_balanced_head_has_zero_mean_and_unit_spread_in_training():
    head = BalancedPerceptronHead(5, 3, hidden=16)
    logits = head(draw_features())
    torch.testing.assert_close(logits.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(logits.std(0, correction=0), torch.ones(3), atol=1e-2, rtol=0)


def test_a_balanced_head_in_service_does_not_depend_on_the_other_images():
    head = BalancedPerceptronHead(5, 3, hidden=16)
    head(draw_features())
    head.eval()
    torch.testing.assert_close(head(draw_features())[:1], head(draw_features()[:1]))


@pytest.mark.parametrize("kind", [PerceptronHead, BalancedPerceptronHead])
def test_the_state_dict_is_the_whole_head(kind):
    head, other = kind(5, 3, hidden=8), kind(5, 3, hidden=8)
    head.fit_standardisation(draw_features())
    head(draw_features())
    other.load_state_dict(head.state_dict())
    assert torch.equal(head.eval()(draw_features()), other.eval()(draw_features()))
