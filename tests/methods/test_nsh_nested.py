"""Nested codes: the loss of every length from that of codes with no other bits; what the head says of its lengths."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from nsh.errors import ConfigError
from nsh.methods import create
from nsh.methods.nsh_nested import NshNested, nested_lengths
from nsh.objectives.contrast import ntxent
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_nce
from nsh.training.loop import CachedViewLoop

PARAMETERS = {
    "epochs": 40,
    "batch": 10,
    "learning_rate": 1e-2,
    "m": 3,
    "tau_s": 2.0,
    "tau_c": 0.2,
    "d_z": 4,
    "queue": 25,
    "sorting": 0.5,
    "temperature": 0.3,
    "neighbours": 0.08,  # of 60 images: 5
    "directions": 6,
    "hidden": 16,
}
LENGTHS = (8, 16, 20)


def build(data, **changes):
    objective = NshNested(**PARAMETERS | changes).objective(data, bits=20, seed=0)
    pair = [torch.from_numpy(data.views[:10, view].astype(np.float32)) for view in (0, 1)]
    return objective, *pair


def outputs(objective, first, second):
    both, head = torch.cat([first, second]), objective.head
    codes = straight_through(head.balance(head.linear(head.hide(head.standardise(both)))).tanh()).chunk(2)
    return codes, functional.normalize(head.standardise(both)[:, :4], dim=1).chunk(2)


def long_nce(scores, items, anchors, *, tau_s):
    """Every rank of every list, with E built."""
    ranked = scores.sort(dim=1, descending=True).values
    shares = ((ranked[:, :, None] - scores[:, None, :]).abs() / -tau_s).softmax(dim=2)
    gathered = functional.normalize(shares @ items, dim=2)
    return sorted_nce((gathered * anchors[:, None]).sum(dim=2), m=3, tau_c=0.2)


def expected(codes, latents, *, former=None):
    """Both losses of codes that have no other bits, one length after the other; 2 Hamming steps are 2 / bits."""
    contrasts, lists = [], []
    for bits in LENGTHS:
        cut = [code[:, :bits] for code in codes]
        contrasts.append(ntxent(*cut, temperature=0.3))
        for a, b in ((0, 1), (1, 0)):
            items = (
                [cut[b], latents[a]]
                if former is None
                else [torch.cat([cut[b], former[0][:, :bits]]), torch.cat([latents[a], former[1]])]
            )
            lists.append(long_nce(affinity(cut[a], items[0]), items[1], latents[b], tau_s=2.0 / bits))
    return sum(contrasts) / 3, sum(lists) / 6


def test_the_first_loss_is_the_mean_over_lengths_of_the_batch(draw_clusters):
    objective, first, second = build(draw_clusters())
    contrast, sorted_loss = expected(*outputs(objective, first, second))
    terms = objective(first, second)
    torch.testing.assert_close(terms["contrast"], contrast)
    torch.testing.assert_close(terms["sorted_nce"], sorted_loss, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(terms["loss"], terms["contrast"] + 0.5 * terms["sorted_nce"])


def test_later_lists_have_the_first_bits_of_the_steps_before_behind_the_batch(draw_clusters):
    objective, first, second = build(draw_clusters())
    codes, latents = outputs(objective, first, second)
    objective(first, second)
    _, sorted_loss = expected(*outputs(objective, second, first), former=(codes[1], latents[0]))
    torch.testing.assert_close(objective(second, first)["sorted_nce"], sorted_loss, rtol=1e-4, atol=1e-5)


def test_the_shortest_bits_get_gradients_from_every_length(draw_clusters):
    objective, first, second = build(draw_clusters(), sorting=0.0)
    (gradient,) = torch.autograd.grad(objective(first, second)["loss"], [objective.head.linear.weight])
    size = gradient.abs().mean(dim=1)
    assert float(size[:8].mean()) > float(size[16:].mean()) > 0


def test_one_training_gives_codes_of_every_length(draw_clusters, tmp_path):
    """Images of five clusters are nearer to their own than to others, by the first bits alone too."""
    data = draw_clusters(count=120)
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    head = NshNested(**PARAMETERS).fit(data, bits=20, seed=0, report=lambda record: None, loop=loop)
    with torch.no_grad():
        bits = head(torch.from_numpy(data.features)).numpy() > 0
    cluster = np.arange(120) % 5
    similar = cluster[:, None] == cluster
    for length in LENGTHS:
        apart = (bits[:, None, :length] != bits[None, :, :length]).mean(axis=2)
        assert apart[similar].mean() < 0.5 * apart[~similar].mean()


@pytest.mark.parametrize(
    ("bits", "lengths"),
    [(4, ()), (8, ()), (12, (8,)), (64, (8, 16, 32)), (128, (8, 16, 32, 64)), (512, (8, 16, 32, 64, 128, 256))],
)
def test_codes_are_nested_at_the_powers_of_two_from_eight(bits, lengths):
    assert nested_lengths(bits) == lengths
    assert NshNested(**PARAMETERS).head(12, bits).nested == lengths


def test_other_methods_codes_are_not_nested():
    assert create("lsh", {}).head(12, 64).nested == ()


@pytest.mark.parametrize("m", [0, 10])
def test_m_must_leave_positives_and_negatives(m):
    with pytest.raises(ConfigError, match=f"methods.nsh_nested: m = {m} positives in a list of 10"):
        create("nsh_nested", PARAMETERS | {"m": m})
