"""The NSH objective: where its gradients go, its heads, its parameters."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from nsh.errors import ConfigError, TrainingError
from nsh.methods import TrainingData, create
from nsh.methods.itq import Itq
from nsh.methods.nsh import SIMILARITIES, Nsh
from nsh.objectives.heads.binary import mean_quantisation, quantisation, squared_quantisation, straight_through
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce, sorted_products
from nsh.system.code import code_digest

PARAMETERS = {
    "epochs": 2,
    "batch": 8,
    "learning_rate": 1e-3,
    "m": 2,
    "tau_s": 0.1,
    "tau_c": 0.1,
    "d_z": 16,
    "similarity": "cosine",
    "quantisation": 1.0,
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "init": "random",
    "ablation": "none",
}


def draw_data(count=40, dim=12, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, dim)).astype(np.float32)
    views = features[:, None] + 0.2 * generator.normal(size=(count, 3, dim))
    return TrainingData(features, views.astype(np.float16))


def build(bits=16, **changes):
    data = draw_data()
    objective = Nsh(**PARAMETERS | changes).objective(data, bits=bits, seed=0)
    first, second = (torch.from_numpy(data.views[:8, view].astype(np.float32)) for view in (0, 1))
    return objective, first, second


def gradient_of_hash_head(objective, loss):
    gradients = torch.autograd.grad(loss, list(objective.head.parameters()), allow_unused=True, retain_graph=True)
    return sum(0.0 if gradient is None else float(gradient.abs().sum()) for gradient in gradients)


def test_loss_is_the_sum_of_its_terms_computed_from_the_equations():
    objective, first, second = build(quantisation=0.5)
    terms = objective(first, second)
    hidden = [objective.head(view).tanh() for view in (first, second)]
    latent = [
        functional.normalize(objective.latent(objective.head.standardise(view)), dim=1) for view in (first, second)
    ]
    scores = affinity(*(straight_through(one) for one in hidden))
    contrast = sorted_nce(sorted_cosines(scores, *latent, tau_s=0.1), m=2, tau_c=0.1)
    torch.testing.assert_close(terms["sorted_nce"], contrast)
    torch.testing.assert_close(terms["quantisation"], quantisation(*hidden))
    torch.testing.assert_close(terms["loss"], contrast + 0.5 * quantisation(*hidden))


def test_t4_with_latents_detached_the_hash_head_still_learns(monkeypatch):
    def detach_latents(scores, first, second, **kwargs):
        return sorted_cosines(scores, first.detach(), second.detach(), **kwargs)

    monkeypatch.setitem(SIMILARITIES, "cosine", detach_latents)
    objective, first, second = build()
    loss = objective(first, second)["sorted_nce"]
    assert gradient_of_hash_head(objective, loss) > 0
    objective, first, second = build()
    with pytest.raises(RuntimeError, match="used in the graph"):
        torch.autograd.grad(objective(first, second)["sorted_nce"], objective.latent.weight)


def test_t4_with_the_permutation_detached_only_quantisation_reaches_the_hash_head(monkeypatch):
    def detach_scores(scores, first, second, **kwargs):
        return sorted_cosines(scores.detach(), first, second, **kwargs)

    monkeypatch.setitem(SIMILARITIES, "cosine", detach_scores)
    objective, first, second = build()
    terms = objective(first, second)
    (of_latents,) = torch.autograd.grad(terms["sorted_nce"], objective.latent.weight, retain_graph=True)
    assert float(of_latents.abs().sum()) > 0
    assert gradient_of_hash_head(objective, terms["sorted_nce"]) == 0
    assert gradient_of_hash_head(objective, terms["quantisation"]) > 0


def test_the_anchor_is_view_two_and_what_is_gathered_is_view_one():
    """Gathering the anchor's own view would make the first cosine 1 without learning anything."""
    objective, first, _ = build()
    other = torch.randn(8, 12, generator=torch.Generator().manual_seed(9))
    same, different = objective(first, first)["sorted_nce"], objective(first, other)["sorted_nce"]
    assert same < different - 0.5


def test_the_literal_temperature_is_the_code_length():
    objective, first, second = build(bits=16, tau_s="d_b")
    assert objective.loss.tau_s == 16.0
    assert objective(first, second)["sorted_nce"].item() == pytest.approx(math.log(8 - 2 + 1), abs=0.3)


def test_read_as_a_product_the_gathered_latents_stay_short():
    objective, first, second = build(similarity="product")
    one, other = objective.apply_heads(first, second)
    scores = affinity(one.code, other.code)
    products = sorted_products(scores, one.latent, other.latent, tau_s=0.1)
    torch.testing.assert_close(objective(first, second)["sorted_nce"], sorted_nce(products, m=2, tau_c=0.1))
    torch.testing.assert_close(
        build()[0](first, second)["sorted_nce"],
        sorted_nce(sorted_cosines(scores, one.latent, other.latent, tau_s=0.1), m=2, tau_c=0.1),
    )


@pytest.mark.parametrize(("name", "quantiser"), [("squared", squared_quantisation), ("mean", mean_quantisation)])
def test_the_quantiser_can_be_read_in_other_ways(name, quantiser):
    objective, first, second = build(quantiser=name)
    hidden = [objective.head(view).tanh() for view in (first, second)]
    torch.testing.assert_close(objective(first, second)["quantisation"], quantiser(*hidden))


def test_symmetric_is_the_mean_of_both_directions_and_exchanging_the_views_does_not_matter():
    objective, first, second = build(symmetric=True)
    one_sided = build()[0]
    forth, back = one_sided(first, second)["sorted_nce"], one_sided(second, first)["sorted_nce"]
    assert abs(forth.item() - back.item()) > 1e-3
    torch.testing.assert_close(objective(first, second)["sorted_nce"], (forth + back) / 2)
    torch.testing.assert_close(objective(first, second)["loss"], objective(second, first)["loss"])


def test_a_hidden_layer_is_below_both_heads_and_ships_with_the_hash_head():
    objective, first, second = build(hidden=5)
    assert isinstance(objective.head, PerceptronHead)
    one, _ = objective.apply_heads(first, second)
    below = objective.head.hidden(objective.head.standardise(first)).relu()
    torch.testing.assert_close(one.hidden, objective.head.linear(below).tanh())
    torch.testing.assert_close(one.latent, functional.normalize(objective.latent(below), dim=1))
    torch.testing.assert_close(one.hidden, objective.head(first).tanh())
    assert "hidden.weight" in Nsh(**PARAMETERS | {"hidden": 5}).head(12, 16).state_dict()


def test_itq_cannot_start_a_hidden_layer():
    with pytest.raises(ConfigError, match="cannot start a hidden layer: choose hidden: 0 or init: random"):
        create("nsh", PARAMETERS | {"hidden": 5, "init": "itq"})


def test_a_bit_is_the_sign_of_the_hidden_code_and_of_the_logit():
    objective, first, _ = build()
    logits = objective.head(first)
    assert torch.equal(logits > 0, straight_through(logits.tanh()) > 0)


def test_duplicated_images_and_constant_features_give_finite_gradients():
    features = np.zeros((8, 12), dtype=np.float32)
    features[:, 0] = 3
    data = TrainingData(features, np.repeat(features[:, None], 2, axis=1).astype(np.float16))
    objective = Nsh(**PARAMETERS).objective(data, bits=4, seed=0)
    views = torch.from_numpy(features)
    objective(views, views)["loss"].backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in objective.parameters())


def test_the_seed_alone_draws_the_heads():
    data = draw_data()
    heads = [Nsh(**PARAMETERS).objective(data, bits=8, seed=seed).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(heads[0][key], heads[1][key]) for key in heads[0])
    assert not torch.equal(heads[0]["head.linear.weight"], heads[2]["head.linear.weight"])


def test_started_from_itq_the_codes_are_nearly_those_of_itq_and_the_logits_soft():
    data = draw_data(count=200)
    head = Nsh(**PARAMETERS | {"init": "itq"}).objective(data, bits=6, seed=3).head
    rival = Itq(iterations=50).fit(data, bits=6, seed=3, report=lambda record: None, loop=None)
    features = torch.from_numpy(data.features)
    logits = head(features).detach()
    agreement = ((logits > 0) == (rival(features) > 0)).float().mean()
    assert agreement > 0.95
    assert logits.std().item() == pytest.approx(0.5, rel=1e-3)


def test_the_latent_head_starts_the_same_from_itq_or_at_random():
    data = draw_data()
    latents = [Nsh(**PARAMETERS | {"init": init}).objective(data, bits=6, seed=3).latent for init in ("itq", "random")]
    assert torch.equal(latents[0].weight, latents[1].weight)


def test_started_from_itq_more_bits_than_features_are_refused():
    with pytest.raises(TrainingError, match=r"13 bits and 12 features: .* or init: random"):
        build(bits=13, init="itq")
    assert build(bits=13)[0].head.bits == 13


def test_equal_embeddings_cannot_start_from_itq():
    data = TrainingData(np.ones((40, 12), np.float32), np.ones((40, 3, 12), np.float16))
    with pytest.raises(TrainingError, match="the same embedding"):
        Nsh(**PARAMETERS | {"init": "itq"}).objective(data, bits=4, seed=0)


@pytest.mark.parametrize("m", [0, 8, 9])
def test_m_must_leave_positives_and_negatives(m):
    with pytest.raises(ConfigError, match=f"methods.nsh: m = {m} positives in a list of 8"):
        create("nsh", PARAMETERS | {"m": m})


def test_fit_hands_the_loop_everything_the_result_depends_on():
    calls = []

    def loop(objective, data, **kwargs):
        calls.append(kwargs)

    head = Nsh(**PARAMETERS).fit(draw_data(), bits=8, seed=4, report=print, loop=loop)
    assert head(torch.zeros(2, 12)).shape == (2, 8)
    code = code_digest(["nsh.methods.nsh"])
    assert calls[0]["identity"] == {"method": "nsh", "method_code": code, "bits": 8, **PARAMETERS}
    assert (calls[0]["seed"], calls[0]["schedule"].epochs, calls[0]["schedule"].batch) == (4, 2, 8)
