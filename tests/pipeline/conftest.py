"""What the stages are tested with: the embedded project, and how a stage is run."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.embedded import BITS, ROOT, load_stage, make_embedded


@pytest.fixture
def stage() -> Callable[[str], ModuleType]:
    """Gives a stage's script as a module, without running it."""
    return load_stage


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the code to write into; programs that a test starts import it."""
    copy = tmp_path / "code"
    for name in ("src/nsh", "pipeline"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", f"{copy / 'src'}:{copy}")
    return copy


@pytest.fixture(scope="session")
def embedded(made_once, request) -> Path:
    """The project after download, split and embed, with a trained ITQ head and an empty MLflow database."""
    return made_once("embedded", lambda folder: make_embedded(folder, request.getfixturevalue))


@pytest.fixture
def project(embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the embedded project, as the working folder."""
    return enter_copy(embedded, tmp_path, monkeypatch)


def enter_copy(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a copy of a project the working folder."""
    folder = tmp_path / "project"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a stage, or an already loaded module of it, for ITQ."""

    def run_stage(script: str | ModuleType, *, bits: int = BITS, method: str = "itq") -> None:
        monkeypatch.setattr("sys.argv", ["stage", "--method", method, "--bits", str(bits)])
        (load_stage(script) if isinstance(script, str) else script).main()

    return run_stage


@pytest.fixture(scope="session")
def exported(embedded: Path, made_once) -> Path:
    """The project after the export stage."""

    def export(folder: Path) -> None:
        shutil.copytree(embedded, folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr("sys.argv", ["export", "--method", "itq", "--bits", str(BITS)])
            load_stage("export").main()

    return made_once("exported", export)


@pytest.fixture
def exported_project(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the exported project, as the working folder."""
    return enter_copy(exported, tmp_path, monkeypatch)
