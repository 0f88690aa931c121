"""The profile coco-sample on real COCO, from the user's files to figures."""

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.end_to_end.project import ROOT, Project, commit, copy_project

from nsh.system.files import read_json

COCO = Path(os.environ.get("NSH_SHARED_DATA", ROOT.parent / "shared/data")) / "coco/coco-sample-159.tar"


@pytest.mark.skipif(not COCO.exists(), reason="no COCO images on this machine (NSH_SHARED_DATA)")
def test_the_profile_runs_on_real_coco(
    tmp_path: Path,
    mlflow_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: Callable,
    run: Callable,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its own images and split; one small pair and random weights, so that no network is needed."""
    copy_project(tmp_path)
    with tarfile.open(COCO) as tar:
        tar.extractall(tmp_path / "data/coco-sample", filter="data")
    project = Project(tmp_path)
    commit(project)
    project.run("tools/use_profile", "coco-sample")
    params = yaml.safe_load((tmp_path / "params.yaml").read_text())
    params["matrix"] = {"methods": ["itq"], "bits": [16]}
    params["embed"]["views"] = 2
    params["backbone"].update(name="resnet18", weights="none", image_size=32)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params))
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)
    for name in ("check", "download", "split", "embed", "audit"):
        stage(name).main()
    for name in ("train", "export", "encode", "evaluate"):
        run(name, bits=16)
    assert "name 159 images with a label, of 122218 published" in "".join(capsys.readouterr())
    assert read_json(Path("data/split/split.json"))["counts"] == {"train": 100, "query": 32, "gallery": 127}
    protocol = read_json(Path("metrics/itq-16.json"))["protocol"]
    assert (protocol["data_set"], protocol["queries"], protocol["gallery"]) == ("coco", 32, 127)
    assert not project.run("git", "status", "--short", "data/coco-sample")  # a user's images do not get into Git
