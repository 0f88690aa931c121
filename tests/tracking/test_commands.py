"""The commands of `nsh` that speak to MLflow, on a real store."""

import pytest
from typer.testing import CliRunner

from nsh.cli import app
from nsh.errors import TrackingError


@pytest.fixture
def nsh(project, monkeypatch):
    monkeypatch.chdir(project)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    return run


def test_sync_list_and_promote(nsh, finish):
    finish("nsh", 16, mAP_at_5_reranked=0.625)
    finish("itq", 32)
    lines = nsh("track", "sync").splitlines()
    assert lines[0] == "nsh-16       added"
    assert lines[1].startswith("nsh-32       skipped: models/nsh-32/head.pt and 9 more missing")
    assert nsh("track", "sync").splitlines()[0] == "nsh-16       there already"

    rows = [line.split() for line in nsh("registry", "list").splitlines()]
    assert rows[0][:3] == ["model", "version", "mAP"]
    assert [row[0] for row in rows[1:]] == ["folder-itq-32", "folder-nsh-16"]
    assert rows[2][1:4] == ["1", "0.5000", "@5"]
    assert "0.6250" not in rows[2]
    assert rows[2][-2:] == ["passed", "challenger"]

    assert nsh("registry", "promote", "folder-nsh-16") == (
        "folder-nsh-16: champion is now version 1 (it had none before)\n"
    )
    assert nsh("registry", "promote", "folder-nsh-16/1") == "folder-nsh-16: version 1 was champion already\n"
    finish("nsh", 16, seed=2)
    nsh("track", "sync")
    assert "champion is now version 2 (before: version 1)" in nsh("registry", "promote", "folder-nsh-16")
    assert "challenger, champion" in nsh("registry", "list")


def test_an_empty_registry_is_no_error(nsh):
    assert "`nsh track sync`" in nsh("registry", "list")


def test_reading_leaves_no_database_in_a_strange_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrackingError, match=r"no MLflow store at .*mlflow\.db: go to the project's folder"):
        CliRunner().invoke(app, ["registry", "list"], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_a_pull_that_nobody_watches_draws_no_bar(nsh, finish, tmp_path):
    finish("nsh", 16)
    nsh("track", "sync")
    lines = nsh("registry", "pull", "folder-nsh-16@challenger", "--out", str(tmp_path / "encoder.onnx")).splitlines()
    assert [line.partition(":")[0] for line in lines] == [str(tmp_path / "encoder.onnx")]
