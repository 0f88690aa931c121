"""Every method that learns by gradient trains a backbone too, whatever it has stored of the frozen one."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.finetune.tiny import BITS, DIM, IMAGES, make_network

from nsh.config import read_params
from nsh.core.codes import pack
from nsh.export import graph
from nsh.methods import METHODS, create
from nsh.objectives.gradient import CleanObjective
from nsh.objectives.sorting.ablations import ABLATIONS
from nsh.serving.session import open_session
from nsh.training.finetune.images import TrainingImages
from nsh.training.finetune.order import hold_out

PARAMETERS = read_params(Path(__file__).parents[3] / "params.yaml").methods.model_dump()
SMALL = {
    "nsh": {"m": 2, "d_z": 8},
    "cibhash": {"hidden": 8},
    "mls3rduh": {"share": 0.2},
    "tbh": {"hidden": 8, "latent": 4},
    "cimon": {"clusters": 3, "similar": 0.2},
    "bgan": {"near": 5, "alike": 3, "hidden": 8},
    "bingan": {"hidden": 8},
    "hashgan": {"hidden": 8},
    "dvb": {"hidden": 8, "latent": 4, "centres": 3},
    "date": {"similar": 0.2},
    "oh": {"hidden": 8, "d_z": 4, "queue": 8},
    "nsh_plus": {"m": 2, "d_z": 4, "queue": 8, "neighbours": 0.2, "directions": 4, "hidden": 8},
    "nsh_nested": {"m": 2, "d_z": 4, "queue": 8, "neighbours": 0.2, "directions": 4, "hidden": 8},
}
"""What of params.yaml is too large for the images here."""
NEED_MORE = ["distillhash"]  # two dozen images hold no pair that it is certain of
LEARNERS = [name for name in METHODS if "epochs" in PARAMETERS[name] and name not in NEED_MORE]
COPIERS = ["greedyhash", "mbe", "sdc", "sgh", "mls3rduh", "tbh", "bgan", "dvb"]
CHOOSERS = ["cimon", "mls3rduh", "bgan", "date"]


def make(name, **changes):
    schedule = {"epochs": 2, "batch": 6, "learning_rate": 1e-3}
    return create(name, PARAMETERS[name] | SMALL.get(name, {}) | schedule | changes)


def fit(method, loop, data, *, records=None):
    report = (lambda record: None) if records is None else records.append
    return method.fit(data, bits=BITS, seed=0, report=report, loop=loop)


def build(name, data, **changes):
    return make(name, **changes).objective(data, bits=BITS, seed=0)


@pytest.fixture
def watch(monkeypatch):
    """The images that are asked for as pairs, by epoch; validation comes under epoch 0 as well."""
    asked, read = [], TrainingImages.read_pairs

    def note(self, batches, *, seed, epoch):
        batches = list(batches)
        images = np.array([int(name) for name in self.ids])
        asked.append((epoch, images[np.concatenate(batches)]))
        return read(self, batches, seed=seed, epoch=epoch)

    monkeypatch.setattr(TrainingImages, "read_pairs", note)
    return asked


@pytest.mark.parametrize(
    ("name", "changes"),
    [(name, {}) for name in LEARNERS] + [("nsh", {"ablation": ablation}) for ablation in ABLATIONS],
)
def test_the_backbone_learns_and_the_head_ships(name, changes, loop, tiny):
    made, records = loop(), []
    head = fit(make(name, **changes), made, tiny.data, records=records)
    assert [record["epoch"] for record in records] == [1, 2]
    assert all(math.isfinite(value) for record in records for value in record.values())
    before = make_network().state_dict()
    for part in ("convolution.weight", "last.weight"):
        assert not torch.equal(made.network.state_dict()[part], before[part])
    model = graph._export(
        graph.EmbeddingToCode(head, bits=BITS),
        torch.zeros(2, DIM),
        input_name="embedding",
        output_names=["code", "logit"],
    )
    code, logit = open_session(graph.to_bytes(model), threads=1).run(None, {"embedding": tiny.data.features})
    with torch.no_grad():
        expected = head(torch.from_numpy(tiny.data.features)).numpy()
    np.testing.assert_allclose(logit, expected, atol=1e-4)
    assert np.array_equal(code, pack(logit > 0))


@pytest.mark.parametrize("name", COPIERS)
def test_what_is_copied_is_what_the_frozen_backbone_saw_and_the_network_cannot_change_it(name, tiny):
    objective, rows = build(name, tiny.data), torch.tensor([3, 20, 7, 11, 0, 5])
    assert isinstance(objective, CleanObjective)
    # Views as they are: numbers far from the stored features' would drive the codes to +-1, where no gradient is left.
    views = [torch.from_numpy(tiny.data.views[rows, view]).float().requires_grad_() for view in range(2)]
    seen, terms = [], objective.terms
    objective.terms = lambda inputs, targets: seen.append((inputs, targets)) or terms(inputs, targets)
    objective.tune(rows, *views)["loss"].backward()
    assert [inputs is view for (inputs, _), view in zip(seen, views, strict=True)] == [True, True]
    for _, targets in seen:
        assert not targets.requires_grad
        assert torch.equal(targets, build(name, tiny.data).targets(rows))
    assert all(view.grad.abs().sum() > 0 for view in views)
    assert torch.equal(objective.features, torch.from_numpy(tiny.data.features))


@pytest.mark.parametrize("name", ["greedyhash", "mbe", "sdc", "sgh", "tbh"])
def test_the_target_is_the_stored_feature(name, tiny):
    rows = torch.tensor([3, 20, 7])
    assert torch.equal(build(name, tiny.data).targets(rows), torch.from_numpy(tiny.data.features[[3, 20, 7]]))


@pytest.mark.parametrize("name", COPIERS)
def test_of_views_that_are_the_stored_features_the_loss_is_the_frozen_one(name, tiny):
    """The mean of two of them, for what is drawn by chance is drawn for each view."""
    objective, rows = build(name, tiny.data), torch.tensor([3, 20, 7, 11, 0, 5])
    stored = torch.from_numpy(tiny.data.features)[rows]
    frozen = copy.deepcopy(objective)
    once, again = (frozen.cached_loss(rows, stored, stored) for _ in range(2))
    tuned = objective.tune(rows, stored, stored)
    assert list(tuned) == list(once)
    for term, value in tuned.items():
        torch.testing.assert_close(value, (once[term] + again[term]) / 2)
    if name not in ("sgh", "tbh", "dvb"):
        torch.testing.assert_close(tuned, once)


@pytest.mark.parametrize("name", CHOOSERS)
def test_a_method_that_chooses_among_the_images_is_followed(name, loop, tiny, watch):
    method, records = make(name, images=14), []
    data, made = method.select(tiny.data, seed=0), loop()
    head = fit(method, made, tiny.data, records=records)
    training, held_out = hold_out(14, count=6, seed=0)
    trained, validated = (np.unique(np.concatenate([pairs for _, pairs in watch[start::2]])) for start in (0, 1))
    assert set(trained) <= set(data.rows[training])
    assert set(validated) == set(data.rows[held_out])
    assert len(trained) > 6
    assert all(math.isfinite(record["loss"]) for record in records)
    standardised = head.standardise(torch.from_numpy(data.features))
    torch.testing.assert_close(standardised.mean(0), torch.zeros(DIM), atol=1e-4, rtol=0)


class TestPartners:
    """Images beside their neighbours."""

    def test_no_side_sees_the_other(self, loop, tiny, watch):
        fit(make("nsh_plus", epochs=4), loop(), tiny.data)
        training, held_out = (set(rows.tolist()) for rows in hold_out(IMAGES, count=6, seed=0))
        trained, validated = ([pairs for _, pairs in watch[start::2]] for start in (0, 1))
        assert {row for pairs in trained for row in pairs.ravel().tolist()} == training
        assert {row for pairs in validated for row in pairs.ravel().tolist()} == held_out
        assert len(trained) == len(validated) == 4
        assert all(np.array_equal(pairs, validated[0]) for pairs in validated)
        neighbours = build("nsh_plus", tiny.data).neighbours.tolist()
        for image, partner in np.concatenate(trained).tolist():
            assert partner == image or partner in neighbours[image]
        assert np.mean(np.diff(np.concatenate(trained)) != 0) > 0.3

    def test_seed_and_epoch_alone_draw_them(self, tmp_path, tiny, watch, loop):
        fit(make("nsh_plus", epochs=2), loop(), tiny.data)
        whole = list(watch)
        watch.clear()
        fit(make("nsh_plus", epochs=2, tau_c=0.3), loop(), tiny.data)
        torch.rand(3)
        assert all(np.array_equal(one, other) for (_, one), (_, other) in zip(whole, watch, strict=True))
        assert not np.array_equal(whole[0][1], whole[2][1])
