"""What holds for every method: its head ships as ONNX, is its state dict and its seed, and survives odd images."""

import io

import numpy as np
import pytest
import torch
from tests.methods.closed_form import as_data
from tests.methods.small import BITS, DIM, NAMES, PARAMETERS, VARIANTS, create_small, draw_features

from nsh.core.codes import pack
from nsh.errors import TrainingError
from nsh.export import graph
from nsh.methods import METHODS
from nsh.objectives.heads.linear import to_bytes
from nsh.serving.session import open_session
from nsh.training.loop import CachedViewLoop


def fit(name, features, tmp_path, *, seed=0, report=None, **changes):
    data = as_data(features)
    method = create_small(name, **changes)
    rows = []
    loop = CachedViewLoop(cache=tmp_path / "cache", threads=1)
    return method, method.fit(data, bits=BITS, seed=seed, report=report or rows.append, loop=loop), rows


@torch.no_grad()
def logits_of(head, features):
    return head(torch.from_numpy(features)).numpy()


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_the_exported_head_agrees_with_torch_on_any_finite_input(name, tmp_path):
    _, head, _ = fit(name, draw_features(), tmp_path)
    module = graph.EmbeddingToCode(head, bits=BITS)
    model = graph._export(module, torch.zeros(2, DIM), input_name="embedding", output_names=["code", "logit"])
    session = open_session(graph.to_bytes(model), threads=1)
    odd = np.stack([np.zeros(DIM), np.ones(DIM), np.full(DIM, 1e4), np.full(DIM, -1e4), np.eye(DIM)[0] * 1e-6])
    embeddings = np.concatenate([odd, draw_features(300, seed=1), draw_features(20)]).astype(np.float32)
    expected = logits_of(head, embeddings)
    assert np.isfinite(expected).all()
    for batch in (1, 7, len(embeddings)):
        code, logit = session.run(["code", "logit"], {"embedding": embeddings[:batch]})
        np.testing.assert_allclose(logit, expected[:batch], atol=2e-4, rtol=1e-4)
        assert np.array_equal(code, pack(logit > 0))


def test_bits_are_of_both_kinds(name, tmp_path):
    """Not a head that gives every image the same bit, on images that differ."""
    _, head, _ = fit(name, draw_features(), tmp_path)
    ones = (logits_of(head, draw_features()) > 0).mean(axis=0)
    assert ((ones > 0) & (ones < 1)).mean() > 0.7


def test_the_state_dict_is_the_whole_head(name, tmp_path):
    method, head, _ = fit(name, draw_features(), tmp_path)
    empty = method.head(DIM, BITS).eval()  # as the export does
    empty.load_state_dict(torch.load(io.BytesIO(to_bytes(head)), weights_only=True))
    fresh = draw_features(40, seed=2)
    assert np.array_equal(logits_of(empty, fresh), logits_of(head, fresh))


def test_the_same_seed_gives_the_same_bytes_and_the_same_history(name, tmp_path):
    (_, first, rows), (_, second, again) = (fit(name, draw_features(), tmp_path, seed=3) for _ in range(2))
    assert to_bytes(first) == to_bytes(second)
    assert rows == again
    assert rows
    assert all(np.isfinite(list(row.values())).all() and "loss" in row for row in rows)
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))


class StoppedError(Exception):
    """Raised by a report to break off a run between two epochs."""


def stop_after_the_first(record):
    if record["epoch"] == 1:
        raise StoppedError


@pytest.mark.parametrize("name", [name for name in METHODS if "epochs" in PARAMETERS[name]], indirect=True)
def test_an_interrupted_run_ends_as_an_uninterrupted_one(name, tmp_path):
    _, expected, history = fit(name, draw_features(), tmp_path / "whole", epochs=2)
    with pytest.raises(StoppedError):
        fit(name, draw_features(), tmp_path / "broken", epochs=2, report=stop_after_the_first)
    assert list((tmp_path / "broken").rglob("*.ckpt"))
    _, resumed, again = fit(name, draw_features(), tmp_path / "broken", epochs=2)
    assert to_bytes(resumed) == to_bytes(expected)
    assert again == history


def constant_columns():
    features = draw_features()
    features[:, ::4] = 0.3
    return features


def duplicates():
    return draw_features()[np.arange(160) % 40]


def zero_rows():
    features = draw_features()
    features[:5] = 0
    return features


def few():
    return draw_features(5)


def alone():
    return draw_features(1)


def alike():
    return np.ones((160, DIM), np.float32)


ODD = [constant_columns, duplicates, zero_rows, few, alone, alike]
ALIKE = "all training images have the same embedding"
BATCH = "found [15] training images, a batch needs [12]0"
ANCHORS = "found [15] different training images for 30 anchors"
CLUSTERS = "found [15] training images for 6 clusters"
VARIANCE = "PCAH needs a direction of variance for each bit: 12 bits asked for, [04] found"
NEIGHBOUR = "found 1 training image, which has no neighbour"
TOO_FEW = {
    "cimon": CLUSTERS,
    "dvb": "found fewer than 6 different training images for 6 centres",
    "distillhash": "found [15] training images, 4 neighbours of each need 6",
}
WHITENED = ["nsh", *(name for name in VARIANTS if name != "nsh hidden"), "sh"]
BATCHED = ["cibhash", "greedyhash", "mbe", "sdc", "crovca", "sgh", "deepbit", "mls3rduh", "tbh", "date", "oh"]
BATCHED += ["nsh hidden"]
ADVERSARIAL = ["bgan", "bingan", "hashgan"]
AMONG_NEIGHBOURS = ["nsh_plus", "nsh_nested"]
POOR = {"pcah": VARIANCE, "agh": ANCHORS, "dgh": ANCHORS}
REFUSALS = {
    few: POOR | dict.fromkeys(["nsh", *VARIANTS, *BATCHED, *ADVERSARIAL, *AMONG_NEIGHBOURS], BATCH) | TOO_FEW,
    alone: POOR
    | dict.fromkeys([*WHITENED, *ADVERSARIAL], ALIKE)
    | dict.fromkeys(BATCHED, BATCH)
    | TOO_FEW
    | dict.fromkeys(AMONG_NEIGHBOURS, NEIGHBOUR),
    alike: POOR
    | dict.fromkeys([*WHITENED, *ADVERSARIAL, *AMONG_NEIGHBOURS], ALIKE)
    | {"dvb": TOO_FEW["dvb"], "distillhash": "DistillHash kept no similar pair of 160 training images"},
}
"""What is refused of odd images, and the sentence; all else is learned from."""


@pytest.mark.parametrize(
    ("name", "odd", "refusal"),
    [(name, odd, refusal) for odd, refused in REFUSALS.items() for name, refusal in refused.items()],
    indirect=["name"],
)
def test_odd_images_that_are_too_few_or_too_alike_are_refused_in_one_sentence(name, odd, refusal, tmp_path):
    with pytest.raises(TrainingError, match=f"^{refusal}") as caught:
        fit(name, odd(), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "odd"),
    [(name, odd) for odd in ODD for name in NAMES if name not in REFUSALS.get(odd, ())],
    indirect=["name"],
)
def test_odd_images_that_are_enough_give_finite_logits(name, odd, tmp_path):
    _, head, rows = fit(name, odd(), tmp_path)
    assert np.isfinite(logits_of(head, odd())).all()
    assert np.isfinite(logits_of(head, draw_features(20, seed=5))).all()
    assert all(np.isfinite(row["loss"]) for row in rows)
