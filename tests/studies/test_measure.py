"""A trial runs for real: trained, exported, encoded and evaluated."""

import json
import shutil

import numpy as np
import pytest
import torch

from nsh.core.codes import unpack
from nsh.core.manifest import read_codes
from nsh.data.split import read_part
from nsh.errors import DataError, TrainingError
from nsh.methods import TrainingData, create
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Pair, PairFiles
from nsh.project.results import read_measured
from nsh.studies import measure as module
from nsh.studies.measure import main
from nsh.studies.protocol import digest_of
from nsh.system.files import read_json

ITQ = {"method": "itq", "parameters": {"iterations": 5}, "bits": 12, "seed": 3}
KEPT = {"metrics", "parity.json", "query.npy", "gallery.npy", "trial.json"}


def average_precision(codes, labels, gallery, gallery_labels):
    """Of one query, from the definition; the gallery is smaller than k."""
    order = sorted(range(len(gallery)), key=lambda row: (int((codes != gallery[row]).sum()), row))
    precisions, hits = [], 0
    for rank, row in enumerate(order, start=1):
        if (labels & gallery_labels[row]).any():
            hits += 1
            precisions.append(hits / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


@pytest.fixture
def run(monkeypatch, setting):
    """A function that measures in this process, which has torch already, and gives the folder that was left."""

    def run(request, code=None):
        folder = setting.trials / "one"
        arguments = [str(setting.project.folder), str(folder), code or digest_of(request["method"])]
        monkeypatch.setattr("sys.argv", ["measure", *arguments, json.dumps(request)])
        main()
        return folder

    return run


def test_a_trial_is_the_method_s_head_searched_exactly(run, setting, monkeypatch):
    codes, evaluate = {}, module.evaluate_codes

    def look(project, files, **options):
        codes.update({part: unpack(read_codes(files.codes / part).codes, bits=12) for part in ("query", "gallery")})
        evaluate(project, files, **options)

    monkeypatch.setattr(module, "evaluate_codes", look)
    folder = run(ITQ)
    assert {path.name for path in folder.iterdir()} == KEPT
    assert {name: read_json(folder / "trial.json")[name] for name in ITQ} == ITQ
    assert read_json(folder / "trial.json")["train_seconds"] >= 0
    assert read_json(folder / "parity.json")["bit_agreement"] >= 0.999
    assert {path.name for path in setting.project.folder.iterdir()} == {"data", "params.yaml", "trials"}

    embeddings = Embeddings(setting.project.embed)
    data = TrainingData(*embeddings.read_training())
    head = create("itq", {"iterations": 5}).fit(data, bits=12, seed=3, report=lambda row: None, loop=None).eval()
    parts = {part: read_part(setting.project.split, part) for part in ("query", "gallery")}
    for part in parts:
        with torch.no_grad():
            logits = head(torch.from_numpy(np.array(embeddings.read(part)))).numpy()
        clear = np.abs(logits) > 1e-3 * np.abs(logits).max()  # above what two kernels may round otherwise
        assert clear.mean() > 0.9
        assert np.array_equal(codes[part][clear], (logits > 0)[clear])
    for part in parts:
        assert np.array_equal(unpack(np.load(folder / f"{part}.npy"), bits=12), codes[part])
    expected = [
        average_precision(code, labels, codes["gallery"], parts["gallery"].labels)
        for code, labels in zip(codes["query"], parts["query"].labels, strict=True)
    ]
    found = read_measured(PairFiles(folder, Pair("itq", 12)))
    assert found.average_precision == pytest.approx(expected, abs=1e-6)
    assert found.metrics["mAP_at_1000"] == pytest.approx(np.mean(expected))
    assert [row["epoch"] for row in found.history] == [1, 2, 3, 4, 5]


def test_a_method_that_learns_by_gradient_leaves_no_partial_state(run, params):
    parameters = params.methods.model_dump()["cibhash"] | {"epochs": 1, "batch": 20, "hidden": 8}
    folder = run({"method": "cibhash", "parameters": parameters, "bits": 8, "seed": 0})
    assert {path.name for path in folder.iterdir()} == KEPT
    assert len(read_measured(PairFiles(folder, Pair("cibhash", 8))).history) == 1


def test_code_that_changed_meanwhile_leaves_nothing(run, setting, monkeypatch):
    monkeypatch.setattr(module, "measure", lambda setting, new, **request: 1.0)
    assert (run(ITQ) / "trial.json").is_file()
    shutil.rmtree(setting.trials)
    with pytest.raises(DataError, match="the code was changed while"):
        run(ITQ, code="other")
    assert not (setting.trials / "one").exists()


def test_a_method_that_cannot_leaves_nothing(run, setting):
    with pytest.raises(TrainingError, match="batch"):
        run({"method": "nsh", "parameters": {"batch": 81}, "bits": 8, "seed": 0})
    assert list(setting.trials.iterdir()) == []


def test_images_that_are_gone_are_said(run, setting):
    """An encoder is held against torch on images, which must be there still."""
    text = (setting.project.folder / "params.yaml").read_text()
    (setting.project.folder / "params.yaml").unlink()
    (setting.project.folder / "params.yaml").write_text(text.replace("/images", "/absent"))
    with pytest.raises(DataError, match="cannot be read any more"):
        run(ITQ)
