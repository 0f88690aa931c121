"""The steps of `nsh quickstart`, run for real; where nothing is to be learned, the encoder lies there."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from PIL import Image
from tests.commands import run_nsh
from tests.quickstart.conftest import GOLDEN, git

from nsh.config.applying import take
from nsh.project.paths import Project
from nsh.quickstart.preparation import plan
from nsh.serving.index import Index
from nsh.system.files import sha256_bytes, write_json

WAITING = "stages: {export: {matrix: {method: [itq], bits: [4]}, cmd: touch begun && exec sleep 1000}}\n"


@pytest.fixture
def few(project: Path, photos: Path) -> Path:
    """Six photos, which are enough for the profile."""
    for path in photos.rglob("*.jpg"):
        path.unlink()
    for number in range(6):
        draw(photos / f"beach/{number}.png", 40 * number)
    profile = Path("params/own-folder.yaml")
    values = yaml.safe_load(profile.read_text())
    values["matrix"] = {"methods": ["itq"], "bits": [4]}
    values["split"]["query"] = 1
    profile.write_text(yaml.safe_dump(values))
    return photos


@pytest.fixture
def learned(few: Path) -> Path:
    """The photos, on which the encoder that lies there was learned."""
    planned = plan(few)
    encoder = Project().of(planned.pair).encoder
    encoder.parent.mkdir(parents=True)
    shutil.copy(GOLDEN, encoder)
    take(planned.params)
    write_json(Path("search/made.json"), {"params": sha256_bytes(planned.params.encode())})
    return few


def draw(path: Path, colour: int) -> None:
    Image.new("RGB", (40, 40), (colour, 255 - colour, 90)).save(path)


def run(photos: Path) -> str:
    done = run_nsh("quickstart", photos, "--no-serve")
    assert done.returncode == 0, done.stderr
    return done.stdout


def ids() -> list[str]:
    return sorted(name for batch in Index.open(Path("search/index")).batches() for name in batch.ids)


def test_every_photo_is_in_the_index_and_every_step_is_named(learned: Path) -> None:
    printed = run(learned)
    assert ids() == [f"beach/{number}.png" for number in range(6)]
    assert f"6 photos in {learned}; left out: nothing" in printed
    steps = printed.partition("The steps, each a command of its own:\n")[2]
    assert f"tools/use_profile own-folder   # with dataset.root: {learned}" in steps
    assert "done before  dvc repro export@itq-4\n" in steps
    assert f"  nsh encode '{learned}' --model=models/itq-4/encoder.onnx --out=search/codes\n" in steps
    assert "  nsh index update search/codes --index=search/index\n" in steps
    assert f"nsh serve --model=models/itq-4/encoder.onnx --index=search/index '--images={learned}' --host=127" in steps
    assert "edit params/own-folder.yaml" in steps


def test_again_only_what_is_new_is_encoded(learned: Path) -> None:
    run(learned)
    draw(learned / "new.png", 250)
    draw(learned / "beach/1.png", 251)
    (learned / "beach/0.png").unlink()
    printed = run(learned)
    assert "images: 4 kept, 1 new, 1 changed, 1 gone" in printed
    assert "search/index: 1 added, 1 updated, 1 removed, 6 there now" in printed
    assert ids() == [*(f"beach/{number}.png" for number in range(1, 6)), "new.png"]
    assert "search/index: 0 added, 0 updated, 0 removed, 6 there now" in run(learned)


def test_what_the_profile_excludes_is_in_no_index(learned: Path) -> None:
    profile = Path("params/own-folder.yaml")
    profile.write_text(profile.read_text().replace("dataset:\n", "dataset:\n  exclude: ['0.*']\n"))
    planned = plan(learned)
    take(planned.params)
    write_json(Path("search/made.json"), {"params": sha256_bytes(planned.params.encode())})
    run(learned)
    assert "beach/0.png" not in ids()


def test_a_photo_that_cannot_be_decoded_is_reported_and_no_failure(learned: Path) -> None:
    (learned / "broken.png").write_text("no image")
    done = run_nsh("quickstart", learned, "--no-serve")
    assert done.returncode == 0
    assert '"broken.png": ' in done.stderr
    assert len(ids()) == 6


def test_another_encoder_makes_codes_and_index_anew(learned: Path) -> None:
    run(learned)
    write_json(Path("search/made.json"), {**yaml.safe_load(Path("search/made.json").read_text()), "encoder": "0" * 64})
    assert "search/codes: 6 codes" in run(learned)
    assert "search/index: 0 added" in run(learned)


def test_other_parameters_are_learned_with_and_a_failure_says_where_to_look(learned: Path) -> None:
    """There is no DVC repository here, so that DVC fails."""
    run(learned)
    profile = Path("params/own-folder.yaml")
    profile.write_text(profile.read_text().replace("k: 10", "k: 9"))
    done = run_nsh("quickstart", learned, "--no-serve")
    assert (done.returncode, done.stderr) == (
        2,
        "error: `dvc repro export@itq-4` failed, and said why above: mend that and run the same command again\n",
    )
    assert yaml.safe_load(Path("params.yaml").read_text())["evaluate"]["k"] == 9
    assert not Path("search/made.json").exists()  # so that the same command asks DVC again


def test_ctrl_c_ends_dvc_and_its_stage(few: Path) -> None:
    Path(".dvc").mkdir()
    Path("dvc.yaml").write_text(WAITING)
    git("commit", "-q", "-a", "-m", "a stage that waits")
    command = [sys.executable, "-m", "nsh.cli", "quickstart", str(few), "--no-serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    while not Path("begun").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()  # to the end of the pipe, which the stage holds too
    assert process.returncode == 130
    assert not Path("search").exists()
