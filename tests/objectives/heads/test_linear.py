"""Hash heads against loops; degenerate features; what travels in the state dict."""

import io
import math

import pytest
import torch

from nsh.objectives.heads.linear import StandardisedHead, UnitHead, draw_uniform, to_bytes


def draw_features(count, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, generator=generator) * torch.arange(1, dim + 1) + 5


def test_standardised_head_equals_the_loop():
    features = draw_features(30, 4)
    head = StandardisedHead(4, 3)
    head.fit_standardisation(features)
    columns = [[float(value) for value in column] for column in features.T]
    means = [sum(column) / 30 for column in columns]
    spreads = [
        math.sqrt(sum((v - mean) ** 2 for v in column) / 30) for column, mean in zip(columns, means, strict=True)
    ]
    weight, bias = head.linear.weight.tolist(), head.linear.bias.tolist()
    expected = [
        [
            sum(w * (x - mu) / sd for w, x, mu, sd in zip(weight[b], row, means, spreads, strict=True)) + bias[b]
            for b in range(3)
        ]
        for row in features.tolist()
    ]
    torch.testing.assert_close(head(features), torch.tensor(expected), atol=1e-5, rtol=1e-5)


def test_standardised_clean_features_have_zero_mean_and_unit_spread():
    features = draw_features(500, 6)
    head = StandardisedHead(6, 2)
    head.fit_standardisation(features)
    standardised = head.standardise(features)
    torch.testing.assert_close(standardised.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(standardised.std(0, correction=0), torch.ones(6))


@pytest.mark.parametrize("constant", [0.0, 0.1, 7.0])
def test_a_constant_feature_gives_finite_logits_for_what_was_never_seen(constant):
    features = draw_features(20, 3)
    features[:, 1] = constant
    head = StandardisedHead(3, 2)
    head.fit_standardisation(features)
    assert bool(head(features).isfinite().all())
    features[:, 1] += 0.5
    assert float(head.standardise(features).abs().max()) < 1e4


def test_features_that_are_all_constant_are_only_shifted():
    head = StandardisedHead(3, 2)
    head.fit_standardisation(torch.full((5, 3), 2.0))
    assert head.standardise(torch.full((1, 3), 3.0)).tolist() == [[1.0, 1.0, 1.0]]


def test_unit_head_does_not_see_the_length_and_takes_zero():
    head = UnitHead(4, 3)
    features = draw_features(5, 4)
    torch.testing.assert_close(head(features * 10), head(features))
    assert torch.equal(head(torch.zeros(1, 4)), head.linear.bias.detach()[None])


@pytest.mark.parametrize("kind", [StandardisedHead, UnitHead])
def test_a_head_is_whole_after_its_state_dict(kind):
    features = draw_features(10, 4)
    head = kind(4, 3)
    if kind is StandardisedHead:
        head.fit_standardisation(features)
    other = kind(4, 3)
    other.load_state_dict(torch.load(io.BytesIO(to_bytes(head)), weights_only=True))
    assert torch.equal(other(features), head(features))
    assert head(features).shape == (10, 3)


def test_equal_heads_have_equal_bytes():
    contents = []
    for seed in (0, 0, 1):
        head = UnitHead(4, 3)
        draw_uniform(head.linear, torch.Generator().manual_seed(seed))
        contents.append(to_bytes(head))
    assert contents[0] == contents[1] != contents[2]


def test_draw_uniform_depends_on_its_generator_alone():
    layers = [torch.nn.Linear(16, 8) for _ in range(3)]
    for layer, seed in zip(layers, [1, 1, 2], strict=True):
        torch.rand(3)
        draw_uniform(layer, torch.Generator().manual_seed(seed))
    assert torch.equal(layers[0].weight, layers[1].weight)
    assert not torch.equal(layers[0].weight, layers[2].weight)
    assert float(layers[0].weight.detach().abs().max()) <= 0.25
