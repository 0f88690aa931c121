"""NSH among neighbours: whose views are paired, the loss from its equations, where gradients go, resumed runs."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from nsh.errors import ConfigError, TrainingError
from nsh.methods import TrainingData, create
from nsh.methods.nsh_plus import NshPlus
from nsh.objectives.contrast import ntxent
from nsh.objectives.graphs.neighbours import share_neighbours
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import to_bytes
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_nce import sorted_cosines, sorted_nce
from nsh.training.loop import CachedViewLoop

PARAMETERS = {
    "epochs": 4,
    "batch": 10,
    "learning_rate": 1e-3,
    "m": 3,
    "tau_s": 0.8,  # of 8 bits: 0.1 of the affinity
    "tau_c": 0.2,
    "d_z": 4,
    "queue": 25,
    "sorting": 0.5,
    "temperature": 0.3,
    "neighbours": 0.08,  # of 60 images: 5
    "directions": 6,
    "hidden": 16,
}


def build(data, *, bits=8, seed=0, **changes):
    objective = NshPlus(**PARAMETERS | changes).objective(data, bits=bits, seed=seed)
    pair = [torch.from_numpy(data.views[:10, view].astype(np.float32)) for view in (0, 1)]
    return objective, *pair


def outputs(objective, first, second):
    both = torch.cat([first, second])
    head = objective.head
    codes = straight_through(head.balance(head.linear(head.hide(head.standardise(both)))).tanh()).chunk(2)
    return codes, functional.normalize(head.standardise(both)[:, :4], dim=1).chunk(2)


def nce(queries, codes, latents, anchors):
    return sorted_nce(sorted_cosines(affinity(queries, codes), latents, anchors, tau_s=0.1), m=3, tau_c=0.2)


def test_the_first_loss_is_that_of_the_batch_on_both_sides(draw_clusters):
    objective, first, second = build(draw_clusters())
    codes, latents = outputs(objective, first, second)
    terms = objective(first, second)
    one = nce(codes[0], codes[1], latents[0], latents[1])
    other = nce(codes[1], codes[0], latents[1], latents[0])
    torch.testing.assert_close(terms["contrast"], ntxent(*codes, temperature=0.3))
    torch.testing.assert_close(terms["sorted_nce"], (one + other) / 2)
    torch.testing.assert_close(terms["loss"], terms["contrast"] + 0.5 * terms["sorted_nce"])


def test_later_lists_have_the_steps_before_behind_the_batch(draw_clusters):
    objective, first, second = build(draw_clusters())
    before_codes, before_latents = outputs(objective, first, second)
    objective(first, second)
    codes, latents = outputs(objective, second, first)
    anchors = [latents[1], latents[0]]
    sides = []
    for side in (0, 1):
        listed = torch.cat([codes[1 - side], before_codes[1]])
        gathered = torch.cat([latents[side], before_latents[0]])
        lists = affinity(codes[side], listed)
        sides.append(long_nce(lists, gathered, anchors[side]))
    torch.testing.assert_close(objective(second, first)["sorted_nce"], sum(sides) / 2, rtol=1e-4, atol=1e-5)


def long_nce(scores, items, anchors):
    """Every rank of every list, with E built."""
    ranked = scores.sort(dim=1, descending=True).values
    shares = ((ranked[:, :, None] - scores[:, None, :]).abs() / -0.1).softmax(dim=2)
    gathered = functional.normalize(shares @ items, dim=2)
    return sorted_nce((gathered * anchors[:, None]).sum(dim=2), m=3, tau_c=0.2)


def test_an_image_is_paired_with_views_of_its_neighbours_and_all_of_them_have_their_turn(draw_clusters):
    data = draw_clusters()
    objective, *_ = build(data)
    head = objective.head
    seen = head.standardise(torch.from_numpy(data.features)).detach()
    expected = share_neighbours(seen, count=5)
    assert torch.equal(objective.neighbours, expected)
    flat = {row.tobytes(): (image, view) for image, of in enumerate(data.views) for view, row in enumerate(of)}
    drawn = {row: set() for row in (3, 44)}
    for _ in range(200):
        for row, view in zip((3, 44), objective.draw_neighbours(torch.tensor([3, 44])), strict=True):
            drawn[row].add(flat[view.numpy().astype(np.float16).tobytes()])
    for row, pairs in drawn.items():
        assert pairs == {(image, view) for image in expected[row].tolist() for view in range(3)}


def test_the_loop_s_second_view_is_left_alone(draw_clusters):
    objective, first, second = build(draw_clusters())
    terms = objective.cached_loss(torch.arange(10), first, torch.full_like(second, torch.nan))
    assert bool(terms["loss"].isfinite())


def test_where_the_backbone_learns_partners_are_neighbours_drawn_from_the_generator_alone(draw_clusters):
    objective, *_ = build(draw_clusters())
    rows = np.array([3, 44, 3])
    drawn = [objective.partners(rows, np.random.default_rng(seed)) for seed in range(100)]
    assert all(np.array_equal(drawn[seed], objective.partners(rows, np.random.default_rng(seed))) for seed in range(9))
    for position, row in enumerate(rows):
        assert {int(chosen[position]) for chosen in drawn} == set(objective.neighbours[row].tolist())
    assert any(chosen[0] != chosen[2] for chosen in drawn)
    assert objective.noise.count == 0


def test_where_the_backbone_learns_the_second_view_is_the_neighbour_s(draw_clusters):
    objective, first, second = build(draw_clusters())
    expected = objective(first, second)
    objective, *_ = build(draw_clusters())
    torch.testing.assert_close(objective.tune(torch.arange(10), first, second), expected)


@pytest.mark.parametrize("term", ["sorted_nce", "contrast"])
def test_both_terms_teach_bits_and_hidden_layer(draw_clusters, term):
    objective, first, second = build(draw_clusters())
    head = objective.head
    for gradient in torch.autograd.grad(objective(first, second)[term], [head.linear.weight, head.hidden.weight]):
        assert float(gradient.abs().sum()) > 0


def test_latents_are_no_longer_than_there_are_directions(draw_clusters):
    objective, first, second = build(draw_clusters(), d_z=64)
    assert objective.queue.latents.shape == (25, 6)
    assert bool(objective(first, second)["loss"].isfinite())


def test_neither_mean_nor_directions_are_trained(draw_clusters):
    objective, *_ = build(draw_clusters())
    trained = {name for name, _ in objective.named_parameters()}
    assert trained == {f"{part}.{kind}" for part in ("head.hidden", "head.linear") for kind in ("weight", "bias")}


class StoppedError(Exception):
    pass


def train(cache, data, *, report=lambda record: None):
    loop = CachedViewLoop(cache=cache, threads=1)
    return NshPlus(**PARAMETERS).fit(data, bits=8, seed=0, report=report, loop=loop)


def test_a_resumed_run_has_the_same_queue_and_neighbours_as_an_uninterrupted_one(draw_clusters, tmp_path):
    data = draw_clusters()

    def stop(record):
        if record["epoch"] == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(tmp_path / "broken", data, report=stop)
    rows, whole_rows = [], []
    resumed = train(tmp_path / "broken", data, report=rows.append)
    whole = train(tmp_path / "whole", data, report=whole_rows.append)
    assert to_bytes(resumed) == to_bytes(whole)
    assert rows == whole_rows


def test_bits_are_balanced_on_the_training_images(draw_clusters, tmp_path):
    data = draw_clusters(count=200)
    ones = (train(tmp_path, data)(torch.from_numpy(data.features)) > 0).float().mean(dim=0)
    assert bool(((ones > 0.15) & (ones < 0.85)).all())


@pytest.mark.parametrize("m", [0, 10, 11])
def test_m_must_leave_positives_and_negatives(m):
    with pytest.raises(ConfigError, match=f"methods.nsh_plus: m = {m} positives in a list of 10"):
        create("nsh_plus", PARAMETERS | {"m": m})


def test_one_image_has_no_neighbour():
    alone = TrainingData(np.ones((1, 12), np.float32), np.ones((1, 2, 12), np.float16))
    with pytest.raises(TrainingError, match="found 1 training image"):
        NshPlus(**PARAMETERS).objective(alone, bits=8, seed=0)
