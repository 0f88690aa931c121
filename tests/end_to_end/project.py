"""The project in a folder of its own, run as a user runs it: dvc in a git repository, on photographs of handwriting.

The images are scikit-learn's handwritten digits (UCI ML repository, 1998), written as PNG files into class folders.
The backbone has random weights, so that no network is needed; everything else is what `make repro` runs.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml
from PIL import Image
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[2]
IMAGES = 301
BROKEN = "0/0000.png"


class Project:
    """A copy of the project under a git repository of its own, and what its commands print."""

    def __init__(self, folder: Path, images: Path | None = None) -> None:
        self.folder, self.images = folder, images
        # Python writes its bytecode beside the copy's code, as it does for a user: it must make no stage stale.
        left_out = ("MLFLOW", "DVC", "GIT", "PYTHONDONTWRITEBYTECODE", "SHELL")
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

    def stages_stale(self) -> set[str]:
        """Stages that `dvc repro` would run for what lies before it now, and not for what it makes."""
        lines = self.run("dvc", "status").splitlines()
        return {line[:-1] for line in lines if line.endswith(":") and not line[0].isspace()}

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())


OUTPUTS = ("data/raw", "data/split", "data/embed", "data/audit", "models", "codes", "metrics", "reports", "dvc.lock")


def copy_project(folder: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in tracked:
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", *OUTPUTS)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def draw_digits(folder: Path) -> None:
    """Photographs in class folders, and one that is cut."""
    digits = load_digits()
    for row, (pixels, label) in enumerate(zip(digits.images[:IMAGES], digits.target[:IMAGES], strict=True)):
        path = folder / str(label) / f"{row:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels / pixels.max() * 255).astype(np.uint8)).save(path)
    broken = folder / BROKEN
    broken.write_bytes(broken.read_bytes()[:60])


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


def make_project(folder: Path, images: Path) -> Project:
    copy_project(folder)
    write_params(folder, images)
    project = Project(folder, images)
    commit(project)
    return project
