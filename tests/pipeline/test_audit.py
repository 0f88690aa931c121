"""Stage audit on real photographs, embedded by a real network."""

import io
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import yaml
from PIL import Image
from tests.commands import run_script
from tests.embedded import ROOT, load_stage

from nsh.core.preprocess import load_input
from nsh.data.split import read_header, read_part
from nsh.system.files import read_json

AUDIT = Path("data/audit")
QUERY, COPIED = 3, 17


@pytest.fixture
def planted(project: Path) -> Path:
    """The embedded project; one query is a gallery image, saved again in another format: other bytes, equal pixels.

    The network has random weights, which see much in what JPEG changes: `tests/audit` has copies saved as JPEG.
    """
    path = Path("images") / read_part(Path("data/split"), "gallery").ids[COPIED]
    content = io.BytesIO()
    Image.open(path).save(content, "BMP")
    session = onnxruntime.InferenceSession("data/embed/backbone.onnx")
    pixels = load_input(content.getvalue(), size=64, resample="bilinear")
    queries = np.load("data/embed/query.npy")
    queries[QUERY] = session.run(None, {session.get_inputs()[0].name: pixels[None]})[0][0]
    np.save("data/embed/query.npy", queries)
    return project


def limit(**values: float | None) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["audit"]["near_duplicates"].update(values)
    Path("params.yaml").write_text(yaml.safe_dump(params))


def written() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in AUDIT.iterdir()}


def test_a_copy_saved_again_is_found_and_the_data_may_train(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limit(warn=None, stop=None)
    load_stage("audit").main()
    ids = {part: read_part(Path("data/split"), part).ids for part in ("query", "gallery")}
    pairs = {pair["query"]: pair["gallery"] for pair in read_json(AUDIT / "findings.json")["near_duplicates"]}
    assert pairs == {ids["query"][QUERY]: ids["gallery"][COPIED]}
    assert read_json(AUDIT / "passed.json") == {"split_sha256": read_header(Path("data/split"))["sha256"]}
    assert "fine         unreadable       0 of 300 images cannot be read" in capsys.readouterr().out
    first = written()
    limit(warn=0.9)
    load_stage("audit").main()
    assert written()["passed.json"] == first["passed.json"]  # another limit trains nothing again
    assert written()["findings.json"] != first["findings.json"]
    limit(warn=None)
    load_stage("audit").main()
    assert written() == first


def test_a_limit_stops_with_a_page_and_one_sentence(planted: Path) -> None:
    load_stage("audit").main()
    limit(warn=0, stop=0)
    done = run_script(ROOT / "pipeline/audit.py")
    assert done.returncode == 2
    message = done.stderr.splitlines()[-1]
    assert message.startswith("error: nothing is trained on these data (data/audit/report.html): ")
    assert "allowed is 0 (audit.near_duplicates): remove the copies" in message
    assert "Traceback" not in done.stderr
    assert set(written()) == {"findings.json", "report.html"}  # and nothing that training could start from


def test_a_warning_above_the_stop_is_refused(project: Path) -> None:
    limit(warn=0.6, stop=0.5)
    done = run_script(ROOT / "pipeline/audit.py")
    assert done.returncode == 2
    assert "audit.near_duplicates: found warn 0.6 and stop 0.5: warn may not be above stop" in done.stderr
