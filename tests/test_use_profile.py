"""tools/use_profile lays a profile over params.yaml and leads back, and loses nobody's own settings and results."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.commands import run_script

ROOT = Path(__file__).parents[1]


def run(project: Path, profile: str) -> "subprocess.CompletedProcess[str]":
    return run_script(project / "tools/use_profile", profile)


def git(project: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *author, *arguments]
    return subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout


def md5(content: str) -> str:
    return hashlib.md5(content.encode()).hexdigest()


def leave_results(project: Path, value: str, *, pairs: tuple[str, ...] = ("nsh-16",)) -> None:
    """What DVC does to files that git tracks: outputs written anew, their digests in dvc.lock, which is staged."""
    digests = []
    for pair in pairs:
        (project / "metrics" / f"{pair}.json").write_text(value)
        digests.append(f"md5: {md5(value)}")
    (project / "reports/results.md").write_text(value)
    entries = json.dumps([{"md5": md5(value), "relpath": "results.md"}], sort_keys=True)
    digests.append(f"md5: {md5(entries)}.dir")
    (project / "dvc.lock").write_text("\n".join(digests))
    git(project, "add", "dvc.lock")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose params.yaml and results are committed, with two profiles."""
    for name, text in {"params.yaml": "a: 1\n", "params/one.yaml": "a: 2\n", "params/two.yaml": "a: 3\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("tools", "metrics", "reports"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools/use_profile", tmp_path / "tools")
    (tmp_path / "README.md").write_text("read me\n")
    (tmp_path / ".gitignore").write_text("/.cache/\n")
    git(tmp_path, "init", "-q")
    leave_results(tmp_path, "default")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a")
    return tmp_path


def commit_default(project: Path, text: str) -> None:
    (project / "params.yaml").write_text(text)
    git(project, "commit", "-q", "-m", "a default", "params.yaml")


def test_a_profile_takes_the_place_of_the_committed_file_or_of_another(project: Path) -> None:
    for profile, text in (("one", "a: 2\n"), ("two", "a: 3\n"), ("two", "a: 3\n")):
        done = run(project, profile)
        assert done.returncode == 0
        assert "back: make repro PROFILE=default" in done.stdout
        assert (project / "params.yaml").read_text() == text


def test_a_profile_may_be_edited_and_taken_again(project: Path) -> None:
    run(project, "one")
    (project / "params/one.yaml").write_text("a: 5\n")
    assert run(project, "one").returncode == 0
    assert (project / "params.yaml").read_text() == "a: 5\n"


def test_images_at_home_are_named_by_their_whole_path(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC, which watches the folder, knows no ~."""
    monkeypatch.setenv("HOME", "/home/somebody")
    (project / "params/one.yaml").write_text("dataset:\n  root: ~/photos\n")
    commit_default(project, "dataset:\n  root: data/local  # images\n")
    for _ in range(2):
        assert run(project, "one").returncode == 0
        assert (project / "params.yaml").read_text() == "dataset:\n  root: /home/somebody/photos # images\n"


def test_what_a_profile_changes_is_shown_and_all_else_stays(project: Path) -> None:
    commit_default(project, "# head\na: 3e-4  # rate\n\nb:  # block\n  c: [1, 2]  # list\n  d: null\n  'e': 'x'\n")
    (project / "params/one.yaml").write_text("b: {c: [3], d: 4}\na: null  # off\n")
    done = run(project, "one")
    text = "# head\na: null  # rate\n\nb:  # block\n  c: [3]     # list\n  d: 4\n  'e': 'x'\n"
    assert (project / "params.yaml").read_text() == text
    assert [line for line in done.stdout.splitlines() if "->" in line] == [
        "  b.c: [1, 2] -> [3]",
        "  b.d: null -> 4",
        "  a: 0.0003 -> null",
    ]


def test_a_changed_default_reaches_a_profile_that_is_taken_again(project: Path) -> None:
    commit_default(project, "a: 1\nb: 1\n")
    run(project, "one")
    run(project, "default")
    commit_default(project, "a: 1\nb: 2\n")
    run(project, "one")
    assert (project / "params.yaml").read_text() == "a: 2\nb: 2\n"


def test_without_its_note_a_profile_is_known_all_the_same(project: Path) -> None:
    """`make clean` removes the note."""
    run(project, "one")
    shutil.rmtree(project / ".cache")
    (project / "params/two.yaml").write_text("no: such\n")  # nobody asks for it
    assert run(project, "default").returncode == 0
    assert (project / "params.yaml").read_text() == "a: 1\n"


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("b: 1\n", "params/one.yaml: b: no such parameter in params.yaml"),
        ("a: [\n", "params/one.yaml is not valid YAML: "),
        ("- a\n", "params/one.yaml: found ['a']; blocks of params.yaml are wanted"),
    ],
)
def test_a_profile_that_cannot_be_laid_over_changes_nothing(project: Path, profile: str, message: str) -> None:
    (project / "params/one.yaml").write_text(profile)
    done = run(project, "one")
    assert (done.returncode, (project / "params.yaml").read_text()) == (2, "a: 1\n")
    assert done.stderr.startswith(f"error: {message}")


def test_a_whole_copy_is_a_profile_too(project: Path) -> None:
    """The way that a refusal names to keep settings of one's own."""
    commit_default(project, "a: 1\nb: 1\n")
    (project / "params.yaml").write_text("a: 1\nb: 5\n")
    shutil.copy(project / "params.yaml", project / "params/mine.yaml")
    assert run(project, "mine").returncode == 0
    assert (project / "params.yaml").read_text() == "a: 1\nb: 5\n"
    assert run(project, "default").returncode == 0
    assert (project / "params.yaml").read_text() == "a: 1\nb: 1\n"


@pytest.mark.parametrize("profile", ["one", "default"])
def test_settings_that_are_nowhere_else_stay(project: Path, profile: str) -> None:
    (project / "params.yaml").write_text("a: 4\n")
    done = run(project, profile)
    assert (done.returncode, (project / "params.yaml").read_text()) == (2, "a: 4\n")
    assert done.stderr.startswith("error: params.yaml has changes of your own: commit them")


def test_what_a_refusal_tells_to_do_lets_one_go_on(project: Path) -> None:
    (project / "params.yaml").write_text("a: 4\n")  # as `dvc exp run -S a=4` leaves it
    command = re.search("`(git checkout [^`]*)`", run(project, "one").stderr)[1]
    subprocess.run(command.split(), cwd=project, check=True, capture_output=True)
    assert run(project, "one").returncode == 0
    assert (project / "params.yaml").read_text() == "a: 2\n"


@pytest.mark.parametrize("name", ["three", "", "../params"])
def test_an_unknown_profile_names_the_known(project: Path, name: str) -> None:
    done = run(project, name)
    assert (done.returncode, done.stderr) == (2, f"error: PROFILE: found '{name}', allowed are default, one, two\n")
    assert (project / "params.yaml").read_text() == "a: 1\n"


def test_the_way_back_touches_nothing_but_what_the_profile_changed(project: Path) -> None:
    (project / "README.md").write_text("a change of mine\n")
    (project / "staged.py").write_text("work = 1\n")
    git(project, "add", "staged.py")
    (project / "staged.py").write_text("work = 2\n")
    (project / "notes.txt").write_text("not in git\n")
    run(project, "one")
    leave_results(project, "profile", pairs=("nsh-16", "nsh-24"))  # a pair that the default does not have
    assert run(project, "default").returncode == 0
    assert git(project, "status", "--short").splitlines() == [" M README.md", "AM staged.py", "?? notes.txt"]
    assert (project / "staged.py").read_text() == "work = 2\n"
    assert run(project, "default").returncode == 0  # again is nothing to do


def test_a_run_that_was_cut_leads_back_too(project: Path) -> None:
    run(project, "one")
    shutil.rmtree(project / "reports")  # DVC removes what it is about to make
    assert run(project, "default").returncode == 0
    assert git(project, "status", "--short") == ""


@pytest.mark.parametrize("stage", [False, True])
@pytest.mark.parametrize("edited", ["metrics/nsh-16.json", "reports/results.md", "reports/mine.md"])
def test_a_result_that_was_edited_is_not_overwritten(project: Path, edited: str, stage: bool) -> None:
    run(project, "one")
    leave_results(project, "profile")
    (project / edited).write_text("a note of mine")
    if stage:
        git(project, "add", edited)
    before = git(project, "status", "--short")
    done = run(project, "default")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert edited in done.stderr
    assert "not as DVC left it, and nothing was touched" in done.stderr
    assert git(project, "status", "--short") == before
    assert (project / edited).read_text() == "a note of mine"
    assert (project / "params.yaml").read_text() == "a: 2\n"


def test_a_lock_that_was_edited_is_not_overwritten(project: Path) -> None:
    run(project, "one")
    leave_results(project, "profile")
    with (project / "dvc.lock").open("a") as lock:
        lock.write("\n# mine")
    done = run(project, "default")
    assert (done.returncode, done.stderr.partition(":")[2].split(":")[0]) == (2, " dvc.lock")


def test_without_git_there_is_no_way_back(project: Path) -> None:
    run(project, "one")
    shutil.rmtree(project / ".git")
    done = run(project, "default")
    assert (done.returncode, (project / "params.yaml").read_text()) == (2, "a: 2\n")
    assert "git knows no committed params.yaml here" in done.stderr
