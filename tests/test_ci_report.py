""".ci/report in a repository of two commits. `make` and `nsh` are small scripts: the real ones train for minutes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKE = "#!/bin/sh\n[ \"$*\" = 'repro PROFILE=quick' ] && cat params.yaml > metrics/nsh-16.json\n"
NSH = '#!/bin/sh\n{ git show "$3:metrics/nsh-16.json"; cat metrics/nsh-16.json; } > "$5"\n'


def git(project, *arguments):
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *author, *arguments], cwd=project, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path):
    """Two commits with other parameters; the first has no .ci/report."""
    for path, text in {"bin/make": MAKE, "project/.venv/bin/nsh": NSH, "project/.gitignore": "/.venv/\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    project = tmp_path / "project"
    git(project, "init", "--quiet")
    for name in ("dvc.lock", "metrics/nsh-16.json", "reports/results.md"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("default\n")
    for text in ("before\n", "after\n"):
        (project / "params.yaml").write_text(text)
        git(project, "add", ".")
        git(project, "commit", "--quiet", "-m", text)
        (project / ".ci").mkdir(exist_ok=True)
        shutil.copy(ROOT / ".ci/report", project / ".ci/report")
    return project


def test_the_profile_runs_on_both_commits_and_the_report_compares_them(project, tmp_path):
    base, head = git(project, "rev-parse", "HEAD~"), git(project, "rev-parse", "HEAD")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    subprocess.run([".ci/report", base], cwd=project, env=os.environ | {"PATH": path}, check=True)
    assert (project / "report.md").read_text() == "before\nafter\n"
    assert git(project, "rev-parse", "HEAD") == head


def test_both_workflows_run_it_from_the_commit_that_the_request_starts_from():
    github = yaml.safe_load((ROOT / ".github/workflows/report.yml").read_text())
    commands = [step.get("run") for step in github["jobs"]["report"]["steps"]]
    assert ".ci/report ${{ github.event.pull_request.base.sha }}" in commands
    gitlab = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
    assert '.ci/report "$CI_MERGE_REQUEST_DIFF_BASE_SHA"' in gitlab["report"]["script"]
