"""The compare stage on a small real project: photographs, ITQ codes by onnxruntime, real metrics."""

import csv
import shutil
from pathlib import Path

import onnx
import pytest
import yaml
from PIL import Image

from nsh.errors import DataError
from nsh.system.files import read_json, write_json

BITS = 12
REPORT = {
    "results.md",
    "results.csv",
    "embedding.json",
    "precision_at_k.csv",
    "pr_ranking.csv",
    "training.csv",
    "retrieval.png",
    "precision_at_h2.png",
    "training.png",
    "precision_at_k.png",
    "precision_recall.png",
}


@pytest.fixture
def project(exported_project):
    return exported_project


def finish(stage):
    """What lies between the encoder and the report, by the real stages; MLflow has its own tests."""
    key = Path(f"models/itq-{BITS}")
    write_json(key / "history.json", [{"epoch": 1, "loss": 0.75}, {"epoch": 2, "loss": 0.5}])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("encode", "evaluate"):
            patch.setattr("sys.argv", [f"{name}.py", "--method", "itq", "--bits", str(BITS)])
            module = stage(name)
            patch.setattr(module, "record", lambda *arguments, **options: None, raising=False)
            module.main()


def contents():
    return {path.name: path.read_bytes() for path in Path("reports").iterdir()}


def test_a_report_is_whole_true_and_the_same_again(project, stage, capsys):
    finish(stage)
    stage("compare").main()
    first = contents()
    assert first.keys() == REPORT
    metrics = read_json(Path(f"metrics/itq-{BITS}.json"))
    assert f"{metrics['mAP_at_1000']:.4f}" in Path("reports/results.md").read_text()
    assert f"{metrics['mAP_at_1000']:.4f}" in capsys.readouterr().out
    rows = list(csv.DictReader(Path("reports/results.csv").read_text().splitlines()))
    assert [(row["method"], row["bits"]) for row in rows] == [("embedding", ""), ("itq", str(BITS))]
    assert rows[1]["unique_codes"] == f"{metrics['unique_codes']:.6g}"
    ceiling = read_json(Path("reports/embedding.json"))
    assert ceiling["mAP_at_1000"] > metrics["mAP_at_1000"] > 0.5  # floats know more than twelve bits
    for name in REPORT:
        if name.endswith(".png"):
            Image.open(Path("reports") / name).verify()

    Path("reports/left_over.png").write_bytes(b"of an earlier run")
    stage("compare").main()
    assert contents() == first


def test_without_labels_the_report_claims_nothing(project, stage):
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["dataset"]["labels"] = "none"
    Path("params.yaml").write_text(yaml.safe_dump(params))
    shutil.rmtree("data/split")
    embed, graph = stage("embed"), onnx.load("data/embed/backbone.onnx")
    embed.export_backbone = lambda backbone, *, image_size: graph  # labels do not change it
    for module in (stage("download"), stage("split"), embed):
        module.main()
    finish(stage)
    stage("compare").main()
    assert contents().keys() == REPORT - {"precision_at_k.png", "precision_recall.png"}
    assert read_json(Path("reports/embedding.json")) == {}
    assert Path("reports/precision_at_k.csv").read_text() == "method,bits,k,precision\n"
    columns = Path("reports/results.csv").read_text().splitlines()[0].split(",")
    assert "estimated_mAP_at_1000" in columns
    assert not any(name.startswith(("mAP", "P_", "recall")) for name in columns)


def test_a_pair_that_is_missing_is_named_and_the_old_report_stays(project, stage):
    Path("reports").mkdir()
    Path("reports/results.md").write_text("earlier")
    with pytest.raises(DataError, match=f"metrics/itq-{BITS}.json is not here: run `dvc repro evaluate@itq-{BITS}`"):
        stage("compare").main()
    assert Path("reports/results.md").read_text() == "earlier"
