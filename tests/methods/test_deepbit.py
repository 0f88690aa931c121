"""DeepBit's three terms, written out, and where each is zero."""

import numpy as np
import pytest
import torch

from nsh.methods.deepbit import DeepBit

PARAMETERS = {"epochs": 2, "batch": 8, "learning_rate": 1e-3, "balance": 2.0, "invariance": 0.5}


def build(data):
    objective = DeepBit(**PARAMETERS).objective(data, bits=5, seed=0)
    return objective, *(torch.from_numpy(data.views[:8, view].astype(np.float32)) for view in (0, 1))


def test_the_terms_are_written_out(draw_clusters):
    objective, first, second = build(draw_clusters())
    terms = objective(first, second)
    outputs = [objective.head(view).tolist() for view in (first, second)]
    bits = [[[float(value > 0) for value in row] for row in view] for view in outputs]
    rounding = sum(
        (b - 0.5 - f) ** 2
        for view, codes in zip(outputs, bits, strict=True)
        for row, code in zip(view, codes, strict=True)
        for f, b in zip(row, code, strict=True)
    )
    rows = bits[0] + bits[1]
    imbalance = sum((sum(row[k] for row in rows) / 16 - 0.5) ** 2 for k in range(5))
    variance = sum((a - b) ** 2 for one, other in zip(*bits, strict=True) for a, b in zip(one, other, strict=True))
    assert terms["quantisation"].item() == pytest.approx(rounding / 16, rel=1e-5)
    assert terms["imbalance"].item() == pytest.approx(imbalance, abs=1e-6)
    assert terms["variance"].item() == pytest.approx(variance / 8, rel=1e-5)
    expected = terms["quantisation"] + 2 * terms["imbalance"] + 0.5 * terms["variance"]
    torch.testing.assert_close(terms["loss"], expected)


def test_equal_views_do_not_vary(draw_clusters):
    objective, first, _ = build(draw_clusters())
    assert objective(first, first)["variance"].item() == 0


def test_the_gradient_of_the_bits_is_handed_on_to_the_outputs_unchanged(draw_clusters):
    objective, first, second = build(draw_clusters())
    terms = objective(first, second)
    (terms["imbalance"] + terms["variance"]).backward()
    inputs = torch.cat([first, second])
    bits = (objective.head(inputs) > 0).float() - 0.5
    difference = bits[:8] - bits[8:]
    of_bits = 2 * bits.mean(0) / 16 + torch.cat([2 * difference, -2 * difference]) / 8
    expected = of_bits.T @ objective.head.standardise(inputs) / 2  # b - 1/2 is half of the sign
    torch.testing.assert_close(objective.head.linear.weight.grad, expected)


@pytest.mark.parametrize("term", ["quantisation", "imbalance", "variance"])
def test_every_term_reaches_the_head(term, draw_clusters):
    objective, first, second = build(draw_clusters())
    objective(first, second + torch.randn(8, 12, generator=torch.Generator().manual_seed(0)))[term].backward()
    assert float(objective.head.linear.weight.grad.abs().sum()) > 0
