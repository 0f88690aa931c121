import json

import numpy as np
import pytest
import torch

from nsh.core.codes import unpack
from nsh.data.split import read_part
from nsh.errors import DataError, TrainingError
from nsh.methods import TrainingData, create
from nsh.studies import measure as module
from nsh.studies.measure import digest_of, encode, main, measure
from nsh.system.files import read_json

ITQ = {"method": "itq", "parameters": {"iterations": 5}, "bits": 12, "seed": 3}


def average_precision(codes, labels, gallery, gallery_labels):
    """Of one query, from the definition; the gallery is smaller than k."""
    order = sorted(range(len(gallery)), key=lambda row: (int((codes != gallery[row]).sum()), row))
    precisions, hits = [], 0
    for rank, row in enumerate(order, start=1):
        if (labels & gallery_labels[row]).any():
            hits += 1
            precisions.append(hits / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


def test_a_cell_is_the_method_s_head_searched_exactly(workspace):
    found = measure(workspace.folder, **ITQ)
    data = TrainingData(np.load(workspace.embed / "train.npy"), np.load(workspace.embed / "views.npy"))
    head = create("itq", {"iterations": 5}).fit(data, bits=12, seed=3, report=lambda row: None, loop=None).eval()
    parts = {part: read_part(workspace.split, part) for part in ("query", "gallery")}
    bits = {}
    for part in parts:
        embeddings = torch.from_numpy(np.load(workspace.embed / f"{part}.npy"))
        bits[part] = (head(embeddings) > 0).numpy()
        assert np.array_equal(unpack(found.codes[part], bits=12), bits[part])
    expected = [
        average_precision(codes, labels, bits["gallery"], parts["gallery"].labels)
        for codes, labels in zip(bits["query"], parts["query"].labels, strict=True)
    ]
    assert found.evaluation.average_precision == pytest.approx(expected)
    assert found.evaluation.metrics["mAP_at_1000"] == pytest.approx(np.mean(expected))
    assert found.seconds > 0
    assert [row["epoch"] for row in found.history] == [1, 2, 3, 4, 5]


def test_blocks_of_rows_change_no_code(workspace, monkeypatch):
    whole = measure(workspace.folder, **ITQ).codes
    monkeypatch.setattr(module, "ROWS", 7)
    parted = measure(workspace.folder, **ITQ).codes
    assert all(np.array_equal(whole[part], parted[part]) for part in whole)


def test_a_method_that_learns_by_gradient_needs_no_folder_of_its_own(workspace, params):
    parameters = params.methods.model_dump()["cibhash"] | {"epochs": 1, "batch": 20, "hidden": 8}
    found = measure(workspace.folder, method="cibhash", parameters=parameters, bits=8, seed=0)
    assert len(found.history) == 1
    assert {path.name for path in workspace.folder.iterdir()} == {"data", "made.json"}


def run_main(monkeypatch, workspace, *, code, request):
    arguments = [str(workspace.folder), str(workspace.folder / "cell"), code, json.dumps(request)]
    monkeypatch.setattr("sys.argv", ["measure", *arguments])
    main()
    return workspace.folder / "cell"


def test_what_is_left_is_whole(workspace, monkeypatch):
    folder = run_main(monkeypatch, workspace, code=digest_of("itq"), request=ITQ)
    files = {"result.json", "average_precision.npy", "query.npy", "precision_at_k.csv", "pr_ranking.csv"}
    assert {path.name for path in folder.iterdir()} == files | {"pr_lookup.csv"}
    result = read_json(folder / "result.json")
    assert {name: result[name] for name in ITQ} == ITQ
    assert result["mAP_at_1000"] == pytest.approx(np.load(folder / "average_precision.npy").mean())
    assert np.load(folder / "query.npy").shape == (60, 2)


def test_code_that_changed_meanwhile_leaves_nothing(workspace, monkeypatch):
    with pytest.raises(DataError, match="the code was changed while"):
        run_main(monkeypatch, workspace, code="other", request=ITQ)
    assert not (workspace.folder / "cell").exists()


def test_a_method_that_cannot_leaves_nothing(workspace, monkeypatch):
    with pytest.raises(TrainingError, match="bits"):
        run_main(monkeypatch, workspace, code=digest_of("itq"), request=ITQ | {"bits": 65})
    assert not (workspace.folder / "cell").exists()


def test_codes_follow_the_one_bit_rule():
    head = torch.nn.Identity()
    logits = np.array([[0.0, 1e-30, -1.0]], dtype=np.float32)
    assert unpack(encode(head, logits), bits=3).tolist() == [[False, True, False]]
