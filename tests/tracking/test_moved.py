"""A project that is moved or copied takes its store along: real stores, real moves."""

import shutil
from pathlib import Path

import pytest

from nsh.config import read_params
from nsh.errors import TrackingError
from nsh.system.files import sha256_file
from nsh.tracking import download_encoder, sync
from nsh.tracking.store import open_store

MODEL = "folder-nsh-16@challenger"


def move(project: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(project, to))


def pull(project: Path, to: Path) -> str:
    return sha256_file(download_encoder(MODEL, to=to, folder=project))


def done(project: Path) -> dict[str, str]:
    return {outcome.key: outcome.done for outcome in sync(project, read_params(project / "params.yaml"))}


def test_a_moved_project_finds_its_files_and_writes_nothing_outside(project, params, finish, tmp_path, capsys):
    finish("nsh", 16)
    finish("itq", 16)
    shutil.move(project / "models/itq-16", tmp_path / "itq-16")  # a result that comes after the move
    sync(project, params)
    registered = sha256_file(project / "models/nsh-16/encoder.onnx")
    new = move(project, tmp_path / "other place" / "50% _done")
    shutil.move(tmp_path / "itq-16", new / "models/itq-16")
    assert pull(new, tmp_path / "encoder.onnx") == registered
    assert "project was at" in capsys.readouterr().err
    assert done(new) == {"nsh-16": "there already", "nsh-32": "skipped", "itq-16": "added", "itq-32": "skipped"}
    assert "project was at" not in capsys.readouterr().err  # said once
    assert not project.exists()
    store = open_store(new, experiment="folder")
    for run in store.client.search_runs([store.experiment_id]):
        assert run.info.artifact_uri.startswith((new / "mlartifacts").as_uri())
        assert {item.path for item in store.client.list_artifacts(run.info.run_id)} >= {"parity.json", "split.json"}
    assert pull(move(new, project), tmp_path / "back.onnx") == registered


def test_a_copy_has_a_store_of_its_own(project, params, finish, tmp_path):
    finish("nsh", 16)
    sync(project, params)
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    shutil.rmtree(project / "mlartifacts")
    assert pull(copy, tmp_path / "encoder.onnx") == sha256_file(copy / "models/nsh-16/encoder.onnx")
    with pytest.raises(TrackingError, match="bring the store's folder mlartifacts back to where"):
        pull(project, tmp_path / "gone.onnx")


def test_a_store_that_left_its_files_behind_still_finds_them(project, params, finish, tmp_path):
    finish("nsh", 16)
    sync(project, params)
    other = tmp_path / "other"
    other.mkdir()
    shutil.move(project / "mlflow.db", other)
    before = {path for path in project.rglob("*")}
    assert pull(other, tmp_path / "encoder.onnx") == sha256_file(project / "models/nsh-16/encoder.onnx")
    store = open_store(other, experiment="folder")
    run = store.client.create_run(store.experiment_id)
    store.client.log_text(run.info.run_id, "new", "note.txt")  # what is new is written here
    assert (other / "mlartifacts" / run.info.run_id / "artifacts" / "note.txt").exists()
    assert {path for path in project.rglob("*")} == before


def test_files_of_other_tools_keep_their_addresses(project, params, finish, tmp_path):
    store = open_store(project, experiment="folder")
    elsewhere = (tmp_path / "elsewhere").as_uri()
    other = store.client.create_experiment("other", artifact_location=elsewhere)
    new = move(project, tmp_path / "new")
    assert open_store(new, experiment="folder").client.get_experiment(other).artifact_location == elsewhere
