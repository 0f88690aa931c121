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
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce
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
    "neighbours": 5,
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


def sorted_by(codes, latents, *, bits):
    """SortedNCE of codes that have no other bits, both sides; two Hamming steps are 2 / bits of the affinity."""
    one, other = (code[:, :bits] for code in codes)
    sides = [
        sorted_nce(sorted_cosines(affinity(a, b), latents[x], latents[1 - x], tau_s=2.0 / bits), m=3, tau_c=0.2)
        for x, (a, b) in enumerate(((one, other), (other, one)))
    ]
    return sum(sides) / 2


def test_the_first_loss_is_the_mean_over_lengths_and_the_list_of_the_shortest(draw_clusters):
    objective, first, second = build(draw_clusters())
    codes, latents = outputs(objective, first, second)
    terms = objective(first, second)
    contrasts = [ntxent(codes[0][:, :bits], codes[1][:, :bits], temperature=0.3) for bits in LENGTHS]
    torch.testing.assert_close(terms["contrast"], sum(contrasts) / 3)
    torch.testing.assert_close(terms["sorted_nce"], sorted_by(codes, latents, bits=8))
    torch.testing.assert_close(terms["loss"], terms["contrast"] + 0.5 * terms["sorted_nce"])


@pytest.mark.parametrize("step", range(4))
def test_every_length_has_its_turn_in_the_sorted_list(draw_clusters, step):
    """After `step` steps, with the list of the batch alone: an empty queue that has counted the steps."""
    objective, first, second = build(draw_clusters())
    codes, latents = outputs(objective, first, second)
    objective.queue.after = lambda *batch: batch
    objective.queue.count = 10 * step
    found = objective.sorted_nce(codes, latents)
    torch.testing.assert_close(found, sorted_by(codes, latents, bits=LENGTHS[step % 3]))


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
