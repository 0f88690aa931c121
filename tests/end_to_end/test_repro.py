"""`dvc repro` makes everything, and again only what a change touches."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.end_to_end.project import Project, save

from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file
from nsh.tracking import download_encoder


@pytest.fixture
def copied(project: Project, tmp_path: Path) -> Project:
    """A copy of the project, and what it holds committed: with a profile of fewer pairs, params/fewer.yaml."""
    shutil.copytree(project.folder, tmp_path / "copied", symlinks=True)
    copied = Project(tmp_path / "copied")
    (copied.folder / "params/fewer.yaml").write_text("matrix:\n  methods: [itq]\n")
    save(copied, "results, and a profile of fewer pairs")
    return copied


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
        ("file", "methods"),
        [("methods/itq.py", {"itq"}), ("methods/nsh.py", {"nsh"}), ("objectives/heads/binary.py", {"itq", "nsh"})],
    )
    def test_a_changed_method_makes_its_own_stages_stale_alone(
        self, project: Project, file: str, methods: set[str]
    ) -> None:
        path = project.folder / "src/nsh" / file
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        stale = project.stages_stale()
        path.write_text(text)
        assert stale == {f"{stage}@{method}-16" for stage in ("train", "export") for method in methods}

    def test_a_profile_leads_back_and_leaves_git_as_it_was(self, copied: Project) -> None:
        copied.run("tools/use_profile", "fewer")
        assert copied.stages_run(copied.run("dvc", "repro")) == {"check", "compare"}
        copied.run("tools/use_profile", "default")
        assert copied.run("git", "status", "--short") == ""
        assert not copied.stages_run(copied.run("dvc", "repro"))
        assert copied.run("git", "status", "--short") == ""

    def test_pairs_that_left_the_matrix_give_a_clone_nothing_to_do(self, copied: Project, tmp_path: Path) -> None:
        copied.run("tools/use_profile", "fewer")
        copied.run("dvc", "repro")
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
        images = sorted(project.images.rglob("*.png"))
        codes = Encoder(registered, threads=1).encode(images)
        assert np.array_equal(codes, Encoder(exported, threads=1).encode(images))

    def test_a_mistyped_parameter_is_one_message_and_nothing_runs(self, project: Project) -> None:
        params = project.folder / "params.yaml"
        text = params.read_text()
        params.write_text(text.replace("tau_c: ", "tau_cc: ", 1))
        output = project.run(sys.executable, "pipeline/train.py", "--method", "nsh", "--bits", "16", expect=2)
        params.write_text(text)
        assert "methods.nsh.tau_cc: no such parameter" in output
        assert "Traceback" not in output
