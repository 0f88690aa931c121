"""`lint-imports` refuses what docs/architecture.md forbids: tried with imports written into a copy of the code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = [
    ("core", "nsh.config"),
    ("core", "torch"),
    ("system", "nsh.core"),
    ("project", "nsh.data"),
    ("project", "nsh.config"),
    ("project", "torch"),
    ("errors", "nsh.system"),
    ("config", "nsh.data"),
    ("data", "nsh.config"),
    ("core", "nsh.objectives"),
    ("objectives", "nsh.methods"),
    ("objectives", "nsh.training"),
    ("objectives", "onnxruntime"),
    ("backbones", "nsh.methods"),
    ("backbones", "nsh.objectives"),
    ("data", "nsh.objectives"),
    ("serving", "nsh.objectives"),
    ("tracking", "nsh.objectives"),
    ("methods", "nsh.training"),
    ("methods", "nsh.backbones"),
    ("methods", "onnxruntime"),
    ("training", "nsh.data"),
    ("training", "nsh.export"),
    ("export", "nsh.data"),
    ("export", "nsh.training"),
    ("serving", "nsh.data"),
    ("serving", "torch"),
    ("reports", "nsh.data"),
    ("reports", "torch"),
    ("tracking", "nsh.data"),
    ("tracking", "nsh.training"),
    ("stages", "nsh.config"),
    ("stages", "nsh.tracking"),
    ("studies", "nsh.export"),
    ("studies", "nsh.serving"),
    ("studies", "nsh.tracking"),
    ("terminal", "nsh.config"),
    ("cli", "dvc"),
]


def lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("lint-imports")
    environment = os.environ | {"PYTHONPATH": f"{folder / 'src'}:{folder}"}
    return subprocess.run(
        [program, "--no-cache"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("src", "pipeline"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def file_of(folder: Path, room: str) -> Path:
    """A new file in a room, or the room itself where it is one file."""
    module = folder / f"src/nsh/{room}.py"
    return module if module.exists() else folder / f"src/nsh/{room}/written_by_a_test.py"


def test_every_forbidden_import_is_refused(copy: Path) -> None:
    for room, module in FORBIDDEN:
        with file_of(copy, room).open("a") as file:
            file.write(f"\nimport {module}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    chains = [line.strip(" -") for line in done.stdout.splitlines() if " -> " in line]
    for room, module in FORBIDDEN:
        begin = f"nsh.{room}"
        told = [one for one in chains if one.startswith(begin) and one.partition(" -> ")[2].startswith(module)]
        assert told, f"nothing refuses {room} -> {module}:\n{done.stdout}"


def test_a_room_on_no_line_is_refused(copy: Path) -> None:
    (copy / "src/nsh/attic").mkdir()
    (copy / "src/nsh/attic/__init__.py").touch()
    done = lint(copy)
    assert done.returncode == 1
    assert "attic" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("objectives/sorting/objective", "nsh.objectives.sorting.ablations"),  # modules of one package
        ("objectives/heads/linear", "nsh.objectives.sorting.softsort"),  # packages of one room
    ],
)
def test_a_circle_is_refused(copy: Path, module: str, imported: str) -> None:
    with (copy / f"src/nsh/{module}.py").open("a") as file:
        file.write(f"\ndef late():\n    import {imported}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert "no circles BROKEN" in done.stdout


def test_a_stage_imports_no_other_stage(copy: Path) -> None:
    with (copy / "pipeline/split.py").open("a") as file:
        file.write("\nimport pipeline.train\n")
    assert lint(copy).returncode == 1
