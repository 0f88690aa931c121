"""The report for a pull request, in a real git repository whose results differ in every way from the committed ones."""

import subprocess

import pytest
import yaml
from tests.commands import run_nsh
from tests.tracking.conftest import make_project, write_results

from nsh.config import read_params
from nsh.errors import DataError, TrackingError
from nsh.system.files import write_text
from nsh.tracking import compare_with_revision


def git(project, *arguments):
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *author, *arguments], cwd=project, check=True, capture_output=True)


def write_lock(project, digest, files):
    outs = [{"path": "data/raw/folder", "md5": digest * 32, "nfiles": files}]
    write_text(project / "dvc.lock", yaml.safe_dump({"stages": {"download": {"outs": outs}}}))


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """Results committed as `there` and changed afterwards; `empty` is a revision without results."""
    folder = tmp_path_factory.mktemp("changed")
    (folder / "no.db").touch()
    project = make_project(folder / "project", folder / "no.db")
    git(project, "init", "--quiet")
    git(project, "add", "params.yaml")
    git(project, "commit", "--quiet", "-m", "a")
    git(project, "tag", "empty")
    for method, bits in (("nsh", 16), ("nsh", 32), ("itq", 16)):
        write_results(project, method, bits)
    write_lock(project, "a", 3)
    git(project, "add", "metrics", "dvc.lock")
    git(project, "commit", "--quiet", "-m", "b")
    git(project, "tag", "there")
    write_results(project, "itq", 32)
    write_results(project, "nsh", 32, split="6" * 64)
    write_results(project, "nsh", 16, mAP_at_5=0.56)
    write_lock(project, "b", 4)
    write_text(project / "params.yaml", (project / "params.yaml").read_text().replace("tau_c: 0.1", "tau_c: 0.2", 1))
    return project


def test_the_report_says_what_changed_and_what_cannot_be_compared(changed):
    text = compare_with_revision(changed, read_params(changed / "params.yaml"), revision="there")
    for line in (
        "| nsh-16 | mAP_at_5 | 0.5000 | 0.5600 | +0.0600 [+0.0600, +0.0600] |",
        "| nsh-32 | mAP_at_5 | 0.5000 | 0.5000 | not comparable: measured differently |",
        "| itq-16 | mAP_at_5 | 0.5000 | 0.5000 | +0.0000 [+0.0000, +0.0000] |",
        "| itq-32 | mAP_at_5 |  | 0.5000 | new |",
        '    x-axis ["nsh-16", "itq-16"]',
        "    bar [0.56, 0.5]",
        "    line [0.5, 0.5]",
        '    x-axis "k" 1 --> 3',
        "| methods.nsh.tau_c | 0.1 | 0.2 |",
        "| data/raw/folder | aaaaaaaaaaaa, 3 files | bbbbbbbbbbbb, 4 files |",
    ):
        assert line in text.splitlines()


def test_the_command_writes_the_report(changed, monkeypatch, tmp_path):
    monkeypatch.chdir(changed)
    written = run_nsh("report", "--against", "there", "--out", tmp_path / "report.md")
    assert written.returncode == 0
    assert (tmp_path / "report.md").read_text() == run_nsh("report", "--against", "there").stdout


def test_the_command_replaces_a_report_and_no_other_file(changed, monkeypatch, tmp_path):
    monkeypatch.chdir(changed)
    for content in (b"", b"# Results beside those of main (0123abc)\n"):
        (tmp_path / "report.md").write_bytes(content)
        assert run_nsh("report", "--against", "there", "--out", tmp_path / "report.md").returncode == 0
    for content in (b"# Results\n", b"\xff\xd8"):
        (tmp_path / "notes.md").write_bytes(content)
        refused = run_nsh("report", "--against", "there", "--out", tmp_path / "notes.md")
        assert refused.returncode == 2
        assert "is no report of this command: name another file" in refused.stderr
        assert (tmp_path / "notes.md").read_bytes() == content


@pytest.mark.parametrize(
    ("revision", "message"), [("nowhere", "git knows no revision nowhere"), ("empty", "empty holds no results")]
)
def test_a_revision_without_results_is_one_sentence(changed, revision, message):
    with pytest.raises(TrackingError, match=message):
        compare_with_revision(changed, read_params(changed / "params.yaml"), revision=revision)


def test_without_results_here_the_command_to_run_is_named(tmp_path):
    (tmp_path / "no.db").touch()
    project = make_project(tmp_path / "project", tmp_path / "no.db")
    write_lock(project, "a", 3)
    (project / "metrics").mkdir()
    write_text(project / "metrics/x.json", "{}")
    git(project, "init", "--quiet")
    git(project, "add", "metrics", "dvc.lock", "params.yaml")
    git(project, "commit", "--quiet", "-m", "a")
    with pytest.raises(DataError, match="run `dvc repro evaluate@nsh-16`"):
        compare_with_revision(project, read_params(project / "params.yaml"), revision="HEAD")
