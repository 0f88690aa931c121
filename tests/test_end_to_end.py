"""The real pipeline, as a user runs it: dvc in a git repository of its own, on real photographs of handwriting.

The images are scikit-learn's handwritten digits (UCI ML repository, 1998), written as PNG files into class folders.
The backbone has random weights, so that no network is needed; everything else is what `make repro` runs.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from sklearn.datasets import load_digits

from nsh.core.files import sha256_file
from nsh.serving.encoder import Encoder
from nsh.tracking import download_encoder

ROOT = Path(__file__).parents[1]
IMAGES = 300
COCO = Path(os.environ.get("NSH_SHARED_DATA", ROOT.parent / "shared/data")) / "coco/coco-sample-159.tar"


class Project:
    """A copy of the project under a git repository of its own, and what its commands print."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Python writes its bytecode beside the copy's code, as it does for a user: it must make no stage stale.
        left_out = ("MLFLOW", "DVC", "GIT", "PYTHONDONTWRITEBYTECODE")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(left_out)},
            "PYTHONPATH": str(folder / "src"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_NO_ANALYTICS": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }

    def run(self, *command: str, expect: int = 0) -> str:
        result = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        output = result.stdout + result.stderr
        assert result.returncode == expect, f"{' '.join(command)} exited {result.returncode}:\n{output[-6000:]}"
        return output

    def stages_run(self, output: str) -> set[str]:
        return {line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage")}

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())


OUTPUTS = ("data/raw", "data/split", "data/embed", "models", "codes", "metrics", "reports", "dvc.lock")


def copy_project(folder: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in tracked:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", *OUTPUTS)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def draw_digits(folder: Path) -> None:
    digits = load_digits()
    for row, (pixels, label) in enumerate(zip(digits.images[:IMAGES], digits.target[:IMAGES], strict=True)):
        path = folder / str(label) / f"{row:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels / pixels.max() * 255).astype(np.uint8)).save(path)


def write_params(folder: Path, images: Path) -> None:
    params = yaml.safe_load((folder / "params.yaml").read_text())
    params["matrix"] = {"methods": ["nsh", "itq"], "bits": [16]}
    params["dataset"].update(name="folder", root=str(images), labels="folder")
    params["split"].update(train=100, gallery=200, query=40, max_bad_share=0.1)
    params["backbone"].update(name="resnet18", weights="none", image_size=32)
    params["embed"]["views"] = 2
    params["methods"]["nsh"].update(epochs=2, batch=20, d_z=32)
    params["evaluate"]["k"] = 50
    (folder / "params.yaml").write_text(yaml.safe_dump(params))


def commit(project: Project) -> None:
    for command in (
        "init -q",
        "config user.email test@example.org",
        "config user.name test",
        "add -A",
        "commit -qm start",
    ):
        project.run("git", *command.split())


def save(project: Project, message: str) -> None:
    project.run("git", "add", "-A")
    project.run("git", "commit", "-qm", message)


def stop_in_training(project: Project, how: str) -> str:
    """Stop `dvc repro` once the training has a checkpoint: what it printed until no process of it was left."""
    process = subprocess.Popen(
        ["dvc", "repro", "train@nsh-16"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C reaches every process of a terminal
    )
    while not any((project.folder / ".cache/nsh/train").glob("*/last.ckpt")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    return process.communicate()[0]  # to the end of the pipe, which the training holds too


def make_project(folder: Path, images: Path) -> Project:
    copy_project(folder)
    draw_digits(images)
    write_params(folder, images)
    project = Project(folder)
    project.images = images
    commit(project)
    return project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """After `dvc repro`."""
    project = make_project(tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("digits"))
    project.run("dvc", "repro")
    return project


@pytest.fixture
def copied(project: Project, tmp_path: Path) -> Project:
    """A copy of the project, and what it holds committed: with a profile of fewer pairs, params/fewer.yaml."""
    shutil.copytree(project.folder, tmp_path / "copied", symlinks=True)
    copied = Project(tmp_path / "copied")
    params = yaml.safe_load((copied.folder / "params.yaml").read_text())
    params["matrix"]["methods"] = ["itq"]
    (copied.folder / "params/fewer.yaml").write_text(yaml.safe_dump(params))
    save(copied, "results, and a profile of fewer pairs")
    return copied


class TestPipeline:
    """In any order: each test leaves a project whose stages are up to date, or works on a copy of its own."""

    def test_one_command_makes_everything(self, project: Project) -> None:
        for key in ("nsh-16", "itq-16"):
            metrics = project.json(f"metrics/{key}.json")
            assert 0 < metrics["mAP_at_50"] <= 1
            assert project.json(f"models/{key}/parity.json")["bit_agreement"] >= 0.999
        table = (project.folder / "reports" / "results.md").read_text()
        assert "nsh" in table.lower()
        assert "itq" in table.lower()
        assert "where the time went" in project.run("nsh", "times")

    def test_again_is_nothing_to_do(self, project: Project) -> None:
        assert any((project.folder / "src/nsh/core").rglob("*.pyc"))
        assert not project.stages_run(project.run("dvc", "repro"))

    def test_a_hyperparameter_reruns_its_method_only(self, project: Project) -> None:
        params = project.folder / "params.yaml"
        params.write_text(params.read_text().replace("tau_c: 0.1", "tau_c: 0.3"))
        ran = project.stages_run(project.run("dvc", "repro"))
        assert ran == {"check", "train@nsh-16", "export@nsh-16", "encode@nsh-16", "evaluate@nsh-16", "compare"}

    def test_a_profile_leads_back_and_leaves_git_as_it_was(self, copied: Project) -> None:
        copied.run("tools/use_profile", "fewer")
        assert copied.stages_run(copied.run("dvc", "repro")) == {"check", "compare"}
        copied.run("tools/use_profile", "default")
        assert copied.run("git", "status", "--short") == ""
        assert not copied.stages_run(copied.run("dvc", "repro"))
        assert copied.run("git", "status", "--short") == ""

    def test_pairs_that_left_the_matrix_give_a_clone_nothing_to_do(self, copied: Project, tmp_path: Path) -> None:
        copied.run("tools/use_profile", "fewer")
        copied.run("dvc", "repro")
        copied.run("dvc", "remote", "add", "-d", "store", str(tmp_path / "store"))
        save(copied, "the profile's results")
        copied.run("dvc", "push", "-q")
        copied.run("git", "clone", "-q", str(copied.folder), str(tmp_path / "clone"))
        clone = Project(tmp_path / "clone")
        clone.run("dvc", "pull", "-q")
        assert not (clone.folder / "models/nsh-16").exists()
        assert not clone.stages_run(clone.run("dvc", "repro"))
        assert clone.run("git", "status", "--short") == ""

    @pytest.mark.parametrize("how", ["ctrl-c", "dvc alone is killed"])
    def test_a_training_that_was_stopped_goes_on(self, copied: Project, how: str) -> None:
        epochs = {"ctrl-c": 120, "dvc alone is killed": 121}[how]  # another training each
        params = yaml.safe_load((copied.folder / "params.yaml").read_text())
        params["methods"]["nsh"]["epochs"] = epochs
        (copied.folder / "params.yaml").write_text(yaml.safe_dump(params))
        shutil.rmtree(copied.folder / ".cache/nsh/train", ignore_errors=True)
        output = stop_in_training(copied, how)
        assert "run the same command again to go on" in output
        again = copied.run("dvc", "repro", "train@nsh-16")
        steps = {int(total) for total in re.findall(r"train: +\d+%.*?/(\d+) \[", again)}
        assert steps
        assert max(steps) < epochs * 100 // 20  # fewer than the whole training has
        assert len(copied.json("models/nsh-16/history.json")) == epochs

    def test_the_registered_version_encodes_like_the_file(self, project: Project, tmp_path: Path) -> None:
        registered = download_encoder(
            "models:/folder-nsh-16@challenger", to=tmp_path / "encoder.onnx", folder=project.folder
        )
        exported = project.folder / "models" / "nsh-16" / "encoder.onnx"
        assert sha256_file(registered) == sha256_file(exported)
        images = sorted(project.images.rglob("*.png"))
        codes = Encoder(registered, threads=1).encode(images)
        assert np.array_equal(codes, Encoder(exported, threads=1).encode(images))

    def test_a_broken_image_is_reported_and_left_out(self, tmp_path: Path) -> None:
        project = make_project(tmp_path / "project", tmp_path / "digits")
        broken = sorted(project.images.rglob("*.png"))[0]
        broken.write_bytes(broken.read_bytes()[:60])
        project.run("dvc", "repro", "split")
        assert project.json("data/split/split.json")["unreadable"] == 1
        row = json.loads((project.folder / "data/split/unreadable.jsonl").read_text())
        assert row["id"] == f"{broken.parent.name}/{broken.name}"
        assert row["error"]

    def test_a_mistyped_parameter_is_one_message_and_nothing_runs(self, project: Project) -> None:
        params = project.folder / "params.yaml"
        text = params.read_text()
        params.write_text(text.replace("tau_c: ", "tau_cc: ", 1))
        output = project.run(sys.executable, "pipeline/train.py", "--method", "nsh", "--bits", "16", expect=2)
        params.write_text(text)
        assert "methods.nsh.tau_cc: no such parameter" in output
        assert "Traceback" not in output

    def test_a_mistyped_method_is_said_before_anything_runs(self, copied: Project) -> None:
        values = yaml.safe_load((copied.folder / "params.yaml").read_text())
        values["matrix"] = {"methods": ["nhs"], "bits": [16.5]}
        (copied.folder / "params.yaml").write_text(yaml.safe_dump(values))
        output = copied.run("dvc", "repro", expect=255)
        assert copied.stages_run(output) == {"check"}
        assert "matrix.methods.0: found nhs, allowed are" in output
        assert "matrix.bits.0: found 16.5" in output


@pytest.mark.skipif(not COCO.exists(), reason="no COCO images on this machine (NSH_SHARED_DATA)")
def test_the_coco_profile_runs_on_real_coco(tmp_path: Path) -> None:
    """Its own images and split; one small pair and random weights, so that no network is needed."""
    copy_project(tmp_path)
    with tarfile.open(COCO) as tar:
        tar.extractall(tmp_path / "data/coco-sample", filter="data")
    project = Project(tmp_path)
    commit(project)
    project.run("tools/use_profile", "coco-sample")
    params = yaml.safe_load((tmp_path / "params.yaml").read_text())
    params["matrix"] = {"methods": ["itq"], "bits": [16]}
    params["backbone"].update(name="resnet18", weights="none", image_size=32)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    output = project.run("dvc", "repro")
    assert "name 159 images with a label, of 122218 published" in output
    assert project.json("data/split/split.json")["counts"] == {"train": 100, "query": 32, "gallery": 127}
    protocol = project.json("metrics/itq-16.json")["protocol"]
    assert (protocol["data_set"], protocol["queries"], protocol["gallery"]) == ("coco", 32, 127)
    assert not project.run("git", "status", "--short", "data/coco-sample")  # a user's images do not get into Git
