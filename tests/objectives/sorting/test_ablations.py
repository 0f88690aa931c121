"""The ablations: each loss against loops from the paper, and what makes it that ablation."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from nsh.methods import TrainingData
from nsh.methods.nsh import Nsh
from nsh.objectives.sorting.ablations import ABLATIONS
from nsh.objectives.sorting.softsort import affinity

N, BITS, M, TAU_S, TAU_C = 8, 6, 2, 0.1, 0.2
PARAMETERS = {
    "epochs": 2,
    "batch": N,
    "learning_rate": 1e-3,
    "m": M,
    "tau_s": TAU_S,
    "tau_c": TAU_C,
    "d_z": 5,
    "similarity": "cosine",
    "quantisation": 0.5,
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "init": "random",
    "ablation": "none",
}


def build(ablation, *, bits=BITS, **changes):
    """An objective and two views of eight images."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 12)).astype(np.float32)
    views = (features[:, None] + 0.2 * generator.normal(size=(40, 2, 12))).astype(np.float16)
    method = Nsh(**PARAMETERS | {"ablation": ablation} | changes)
    objective = method.objective(TrainingData(features, views), bits=bits, seed=1)
    return objective, *(torch.from_numpy(views[:N, view].astype(np.float32)) for view in (0, 1))


def total(gradients):
    return sum(0.0 if gradient is None else float(gradient.abs().sum()) for gradient in gradients)


def gradient_of(loss, module):
    return total(torch.autograd.grad(loss, list(module.parameters()), allow_unused=True, retain_graph=True))


# The paper, with plain numbers


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def slow_codes(objective, view):
    return [[1 if logit > 0 else -1 for logit in row] for row in objective.head(view).tolist()]


def slow_latents(objective, view):
    raw = objective.latent(objective.head.standardise(view)).tolist()
    return [[value / math.sqrt(dot(row, row)) for value in row] for row in raw]


def slow_affinity(first, second):
    """Eq. 3."""
    return [[1 - sum(a != b for a, b in zip(one, two, strict=True)) / len(one) for two in second] for one in first]


def mix(weights, rows):
    return [sum(weight * row[d] for weight, row in zip(weights, rows, strict=True)) for d in range(len(rows[0]))]


def soft_sort(scores):
    """Eqs. 1 and 4 of one row, the most similar first."""
    lists = [[math.exp(-abs(level - other) / TAU_S) for other in scores] for level in sorted(scores, reverse=True)]
    return [[weight / sum(weights) for weight in weights] for weights in lists]


def slow_sorted_nce(similarities):
    """Eq. 6."""
    loss = 0.0
    for row in similarities:
        negatives = sum(math.exp(value / TAU_C) for value in row[M:])
        for value in row[:M]:
            loss -= math.log(math.exp(value / TAU_C) / (math.exp(value / TAU_C) + negatives))
    return loss / (M * len(similarities))


def slow_similarities(scores, gathered, anchors):
    """cos(e_i[j, :], anchor_i) for all ranks (Eqs. 4 to 6)."""
    return [
        [cosine(mix(shares, gathered), anchor) for shares in soft_sort(row)]
        for row, anchor in zip(scores, anchors, strict=True)
    ]


def slow_ntxent(first, second):
    vectors, loss = [*first, *second], 0.0
    for i, vector in enumerate(vectors):
        weights = [math.exp(cosine(vector, other) / TAU_C) for other in vectors]
        loss -= math.log(weights[(i + len(first)) % len(vectors)] / (sum(weights) - weights[i]))
    return loss / len(vectors)


def seen(objective, first, second):
    """Codes, latents and affinity of two views."""
    codes = [slow_codes(objective, view) for view in (first, second)]
    latents = [slow_latents(objective, view) for view in (first, second)] if hasattr(objective, "latent") else codes
    return codes, latents, slow_affinity(*codes)


def slow_hard_sort(objective, first, second):
    _, (gathered, anchors), scores = seen(objective, first, second)
    similarities = []
    for i, row in enumerate(scores):
        ranked = sorted(range(N), key=lambda k, row=row: (-row[k], k))
        similarities.append([cosine(gathered[k], anchors[i]) for k in ranked])
    return slow_sorted_nce(similarities)


def slow_nsh(objective, first, second):
    _, (gathered, anchors), scores = seen(objective, first, second)
    return slow_sorted_nce(slow_similarities(scores, gathered, anchors))


def slow_decoding(objective, first, second):
    _, (gathered, _), scores = seen(objective, first, second)
    targets = ((second - objective.head.mean) / objective.head.scale).tolist()
    loss = 0.0
    for row, target in zip(scores, targets, strict=True):
        decoded = objective.decoder(torch.tensor(mix(soft_sort(row)[0], gathered))).tolist()
        loss += sum((a - b) ** 2 for a, b in zip(decoded, target, strict=True))
    return loss / N


def slow_single_bottleneck(objective, first, second):
    (gathered, anchors), _, scores = seen(objective, first, second)
    return slow_sorted_nce(slow_similarities(scores, gathered, anchors))


def slow_no_softsort(objective, first, second):
    _, (one, other), scores = seen(objective, first, second)
    return slow_ntxent([mix(row, one) for row in scores], [mix(row, other) for row in scores])


def slow_multi_label_nce(objective, first, second):
    _, (gathered, anchors), scores = seen(objective, first, second)
    loss = 0.0
    for row in slow_similarities(scores, gathered, anchors):
        everything = sum(math.exp(value / TAU_C) for value in row)
        loss -= sum(math.log(math.exp(value / TAU_C) / everything) for value in row[:M])
    return loss / (M * N)


ORACLES = {
    "hard_sort": slow_hard_sort,
    "no_quantisation": slow_nsh,
    "decoding": slow_decoding,
    "single_bottleneck": slow_single_bottleneck,
    "no_softsort_codes": slow_no_softsort,
    "no_softsort_latents": slow_no_softsort,
    "multi_label_nce": slow_multi_label_nce,
}


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_the_loss_equals_the_loop(ablation):
    objective, first, second = build(ablation)
    terms = objective(first, second)
    expected = ORACLES[ablation](objective, first, second)
    assert terms[objective.term].item() == pytest.approx(expected, rel=1e-4)
    weight = 0.0 if ablation == "no_quantisation" else 0.5
    torch.testing.assert_close(terms["loss"], terms[objective.term] + weight * terms["quantisation"])


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_every_ablation_can_be_symmetric(ablation):
    objective, first, second = build(ablation, symmetric=True)
    torch.testing.assert_close(objective(first, second)["loss"], objective(second, first)["loss"])


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_duplicated_images_and_constant_features_give_finite_gradients(ablation):
    features = np.zeros((N, 12), dtype=np.float32)
    features[:, 0] = 3
    data = TrainingData(features, np.repeat(features[:, None], 2, axis=1).astype(np.float16))
    objective = Nsh(**PARAMETERS | {"ablation": ablation}).objective(data, bits=4, seed=0)
    views = torch.from_numpy(features)
    objective(views, views)["loss"].backward()
    gradients = [parameter.grad for parameter in objective.parameters() if parameter.grad is not None]
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.parametrize("hidden", [0, 7])
def test_hard_sort_gives_the_hash_head_no_gradient_but_that_of_quantisation(hidden):
    objective, first, second = build("hard_sort", hidden=hidden)
    terms = objective(first, second)
    assert gradient_of(terms["sorted_nce"], objective.latent) > 0
    assert gradient_of(terms["sorted_nce"], objective.head.linear) == 0
    assert gradient_of(terms["quantisation"], objective.head.linear) > 0


def test_without_quantisation_the_gradient_is_that_of_the_sorted_loss_alone():
    objective, first, second = build("no_quantisation")
    terms = objective(first, second)
    heads = list(objective.parameters())
    gradients = [torch.autograd.grad(terms[name], heads, retain_graph=True) for name in ("loss", "sorted_nce")]
    assert total(gradients[0]) > 0
    for left, right in zip(*gradients, strict=True):
        assert torch.equal(left, right)


def test_decoding_trains_everything_and_contrasts_nothing():
    objective, first, second = build("decoding")
    loss = objective(first, second)["decoding"]
    for module in (objective.head, objective.latent, objective.decoder):
        assert gradient_of(loss, module) > 0
    others = build("decoding", m=5, tau_c=7.0)[0]
    assert torch.equal(others(first, second)["decoding"], loss)


def test_what_is_decoded_is_the_most_similar_image_s_latent_where_the_sort_is_hard():
    objective, first, second = build("decoding", bits=64, tau_s=1e-3)
    one, other = objective.apply_heads(first, second)
    nearest = affinity(one.code, other.code).argmax(dim=1)
    assert nearest.tolist() == list(range(N))
    torch.testing.assert_close(objective.gather_first(one, other), one.latent[nearest])


@pytest.mark.parametrize("ablation", ["single_bottleneck", "no_softsort_codes"])
def test_with_codes_alone_there_is_no_latent_head(ablation):
    objective, first, second = build(ablation)
    assert {name.partition(".")[0] for name, _ in objective.named_parameters()} == {"head"}
    one, _ = objective.apply_heads(first, second)
    assert torch.equal(one.latent > 0, one.code > 0)
    assert gradient_of(objective(first, second)[objective.term], objective.head) > 0


def test_the_single_bottleneck_s_gradient_is_that_of_the_equations_with_codes_for_latents():
    objective, first, second = build("single_bottleneck")
    loss = objective(first, second)["sorted_nce"]
    one, other = objective.apply_heads(first, second)
    scores = affinity(one.code, other.code)
    levels = scores.sort(dim=1, descending=True).values
    # a level's gradient is shared by its ties, as in nsh.objectives.sorting.softsort
    tied = (levels.unsqueeze(2) == scores.detach().unsqueeze(1)).float()
    levels = levels.detach() + ((tied * (scores - scores.detach()).unsqueeze(1)).sum(2) / tied.sum(2))
    shares = ((levels.unsqueeze(2) - scores.unsqueeze(1)).abs() / -TAU_S).softmax(dim=2)
    cosines = functional.cosine_similarity(shares @ one.code, other.code.unsqueeze(1), dim=2)
    logits = [torch.cat([cosines[:, [j]], cosines[:, M:]], dim=1) / TAU_C for j in range(M)]
    expected = sum(functional.cross_entropy(each, torch.zeros(N, dtype=torch.long)) for each in logits) / M
    heads = list(objective.head.parameters())
    for left, right in zip(torch.autograd.grad(loss, heads), torch.autograd.grad(expected, heads), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("ablation", ["no_softsort_codes", "no_softsort_latents"])
def test_without_softsort_neither_its_temperature_nor_ranks_matter_and_the_codes_still_learn(ablation):
    objective, first, second = build(ablation)
    loss = objective(first, second)["ntxent"]
    other = build(ablation, tau_s=7.0, m=5)[0]
    assert torch.equal(other(first, second)["ntxent"], loss)
    assert gradient_of(loss, objective.head) > 0


@pytest.mark.parametrize("m", [1, 3])
def test_multi_label_nce_is_sorted_nce_for_one_label_and_above_it_for_more(m):
    multi, first, second = build("multi_label_nce", m=m)
    loss = multi(first, second)["multi_label_nce"].item()
    sorted_nce = build("none", m=m)[0](first, second)["sorted_nce"].item()
    if m == 1:
        assert loss == pytest.approx(sorted_nce, rel=1e-5)
    else:
        assert loss > sorted_nce + 0.1


def test_equal_latents_give_multi_label_nce_the_log_of_the_list_s_length():
    objective, first, second = build("multi_label_nce")
    torch.nn.init.zeros_(objective.latent.weight)
    assert objective(first, second)["multi_label_nce"].item() == pytest.approx(math.log(N), rel=1e-5)
