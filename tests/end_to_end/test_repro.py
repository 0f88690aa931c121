"""`dvc repro` makes everything, and again only what a change touches."""

import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from tests.commands import run_script
from tests.end_to_end.project import BROKEN, Project, save

from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file
from nsh.tracking import download_encoder


@pytest.fixture(scope="module")
def fewer(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A committed copy of the project, in which a profile of fewer pairs has run since, and the stages that ran."""
    folder = tmp_path_factory.mktemp("fewer") / "project"
    shutil.copytree(project.folder, folder, symlinks=True)
    copied = Project(folder)
    (folder / "params/fewer.yaml").write_text("matrix:\n  methods: [itq]\n")
    save(copied, "results, and a profile of fewer pairs")
    copied.run("tools/use_profile", "fewer")
    return folder, copied.stages_run(copied.run("dvc", "repro"))


@pytest.fixture
def copied(fewer: tuple[Path, set[str]], tmp_path: Path) -> Project:
    """A copy of that."""
    shutil.copytree(fewer[0], tmp_path / "copied", symlinks=True)
    return Project(tmp_path / "copied")


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

    @pytest.mark.parametrize(
        ("file", "methods", "besides"),
        [
            ("methods/itq.py", {"itq"}, set()),
            ("methods/nsh.py", {"nsh"}, set()),
            ("objectives/heads/binary.py", {"itq", "nsh"}, {"audit"}),  # which codes by LSH
        ],
    )
    def test_a_changed_method_makes_its_own_stages_stale_alone(
        self, project: Project, file: str, methods: set[str], besides: set[str]
    ) -> None:
        path = project.folder / "src/nsh" / file
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        stale = project.stages_stale()
        path.write_text(text)
        assert stale == besides | {f"{stage}@{method}-16" for stage in ("train", "export") for method in methods}

    def test_a_profile_of_fewer_pairs_compares_these_alone(self, fewer: tuple[Path, set[str]]) -> None:
        assert fewer[1] == {"check", "compare"}

    def test_a_profile_leads_back_and_leaves_git_as_it_was(self, copied: Project) -> None:
        copied.run("tools/use_profile", "default")
        assert copied.run("git", "status", "--short") == ""
        assert not copied.stages_run(copied.run("dvc", "repro"))
        assert copied.run("git", "status", "--short") == ""

    def test_pairs_that_left_the_matrix_give_a_clone_nothing_to_do(self, copied: Project, tmp_path: Path) -> None:
        copied.run("dvc", "remote", "add", "-d", "store", str(tmp_path / "store"))
        save(copied, "the profile's results")
        copied.run("dvc", "push", "-q")
        copied.run("git", "clone", "-q", str(copied.folder), str(tmp_path / "clone"))
        clone = Project(tmp_path / "clone")
        clone.run("dvc", "pull", "-q")
        assert not (clone.folder / "models/nsh-16").exists()
        assert not clone.stages_run(clone.run("dvc", "repro"))
        assert clone.run("git", "status", "--short") == ""

    def test_the_registered_version_encodes_like_the_file(self, project: Project, tmp_path: Path) -> None:
        registered = download_encoder(
            "models:/folder-nsh-16@challenger", to=tmp_path / "encoder.onnx", folder=project.folder
        )
        exported = project.folder / "models" / "nsh-16" / "encoder.onnx"
        assert sha256_file(registered) == sha256_file(exported)
        images = sorted(path for path in project.images.rglob("*.png") if path != project.images / BROKEN)
        codes = Encoder(registered, threads=1).encode(images)
        assert np.array_equal(codes, Encoder(exported, threads=1).encode(images))

    def test_a_mistyped_parameter_is_one_message_and_nothing_runs(self, project: Project) -> None:
        params = project.folder / "params.yaml"
        text = params.read_text()
        params.write_text(text.replace("tau_c: ", "tau_cc: ", 1))
        with chdir(project.folder):
            done = run_script(Path("pipeline/train.py"), "--method", "nsh", "--bits", 16)
        params.write_text(text)
        assert done.returncode == 2
        assert "methods.nsh.tau_cc: no such parameter" in done.stderr
        assert "Traceback" not in done.stderr
