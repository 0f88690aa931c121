import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from nsh.data.split import read_header
from nsh.errors import ConfigError, DataError
from nsh.studies import setting as module
from nsh.studies.setting import OUTPUTS, SETTINGS, STUDIES, prepare
from nsh.system.files import read_json

ROOT = Path(__file__).parents[2]
TINY = {
    "dataset.name": "folder",
    "dataset.labels": "folder",
    "split.train": 16,
    "split.gallery": 30,
    "split.query": 10,
    "backbone.name": "mobilenet_v2",
    "backbone.weights": "weights.pt",
    "backbone.image_size": 32,
    "embed.views": 2,
}


@pytest.fixture
def project(tmp_path, photographs, monkeypatch, params):
    """A folder with the pipeline's scripts, forty images, and stages that are counted and really run."""
    monkeypatch.chdir(tmp_path)
    Path("pipeline").symlink_to(ROOT / "pipeline")
    for row, pixels in enumerate(photographs[:40]):
        path = Path(f"images/{'ab'[row % 2]}/{row:03}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[:32, :32]).save(path)
    return tmp_path


@pytest.fixture
def stages(monkeypatch):
    """Names of the stages that were run; they leave files instead of working."""
    ran = []

    def run(stage, folder):
        ran.append(stage)
        for name in OUTPUTS:
            if name.startswith(f"data/{stage}/"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(name)

    monkeypatch.setattr(module, "_run_stage", run)
    return ran


def test_the_real_stages_run_in_the_folder_of_the_setting(project, params, monkeypatch):
    """Without embed, which the pipeline's own tests run: it takes long, and is called as the others are."""
    monkeypatch.setattr(module, "STAGES", ("download", "split"))
    monkeypatch.setattr(module, "OUTPUTS", tuple(name for name in OUTPUTS if name.startswith("data/split/")))
    setting = prepare("tiny", TINY | {"backbone.weights": "none"}, params, root=Path("images"))
    assert setting.project.folder == STUDIES / "tiny"
    assert read_header(setting.project.split)["counts"] == {"train": 16, "query": 10, "gallery": 30}
    written = yaml.safe_load((setting.project.folder / "params.yaml").read_text())
    assert written["dataset"]["root"] == str(project / "images")
    assert written["backbone"]["image_size"] == 32
    assert not Path("data").exists()


def read_root():
    return Path(yaml.safe_load((STUDIES / "tiny/params.yaml").read_text())["dataset"]["root"])


def test_what_is_made_is_not_made_again(project, params, stages):
    first = prepare("tiny", TINY, params, root=Path("images"))
    assert stages == ["download", "split", "embed"]
    assert prepare("tiny", TINY, params, root=Path("images")) == first
    assert prepare("tiny", TINY, params, root=None) == first
    assert read_root() == project / "images"  # of the call before
    Path("images").rename("moved")
    assert prepare("tiny", TINY, params, root=Path("moved")) == first
    assert read_root() == project / "moved"
    assert len(stages) == 3


def test_what_a_call_without_images_has_made_is_theirs(project, params, stages, monkeypatch):
    prepare("tiny", TINY, params, root=Path("images"))
    monkeypatch.setattr(module, "code_digest", lambda roots: "another")
    again = prepare("tiny", TINY, params, root=None)
    assert prepare("tiny", TINY, params, root=Path("images")) == again
    assert stages == ["download", "split", "embed"] * 2


@pytest.mark.parametrize("what", ["parameter", "image", "content", "exclude", "code", "output"])
def test_what_changes_makes_it_again(project, params, stages, monkeypatch, what):
    prepare("tiny", TINY, params, root=Path("images"))
    changes = TINY
    if what == "parameter":
        changes = TINY | {"split.seed": 1}
    elif what == "image":
        Path("images/a/new.png").write_bytes(b"another")
    elif what == "content":  # of the same length
        path = next(Path("images").rglob("*.png"))
        path.write_bytes(path.read_bytes()[::-1])
    elif what == "exclude":
        changes = TINY | {"dataset.exclude": ["thumbs"]}
    elif what == "code":
        monkeypatch.setattr(module, "code_digest", lambda roots: "another")
    else:
        (STUDIES / "tiny/data/embed/views.npy").unlink()
    prepare("tiny", changes, params, root=Path("images"))
    assert stages == ["download", "split", "embed"] * 2


def test_other_outputs_have_another_digest(project, params, stages):
    before = prepare("tiny", TINY, params, root=None).digest
    made = read_json(STUDIES / "tiny/made.json")
    (STUDIES / "tiny/data/embed/query.npy").write_text("other features")
    module.finish(STUDIES / "tiny", made)
    assert prepare("tiny", TINY, params, root=None).digest != before


def test_methods_and_places_do_not_count(project, params, stages):
    first = prepare("tiny", TINY, params, root=None)
    assert prepare("tiny", TINY | {"methods.nsh.m": 5, "compute.threads": 1}, params, root=None) == first
    assert len(stages) == 3


def test_a_stage_that_fails_leaves_the_setting_unmade(project, params, capfd, monkeypatch):
    monkeypatch.setattr(module, "STAGES", ("split",))  # before download, which loads torch
    with pytest.raises(DataError, match="the stage split of the setting tiny failed"):
        prepare("tiny", TINY, params, root=Path("images"))
    assert "dvc repro download" in capfd.readouterr().err
    assert not (STUDIES / "tiny/made.json").exists()


def test_a_root_that_is_none_is_refused(project, params, stages):
    with pytest.raises(ConfigError, match="absent is no folder"):
        prepare("tiny", TINY, params, root=Path("absent"))
    assert stages == []


def test_elsewhere_there_are_no_stages(tmp_path, monkeypatch, params):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="run the command in the project's folder"):
        prepare("tiny", TINY, params, root=None)


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_are_parameters_that_exist(setting, params, project, stages):
    assert prepare(setting, SETTINGS[setting], params, root=None).name == setting


def test_a_relative_module_path_holds_in_another_folder(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", str(ROOT)]))
    code = "import os; print(os.environ['PYTHONPATH'])"
    shown = subprocess.run([sys.executable, "-c", code], env=module._environment(), capture_output=True, text=True)
    assert shown.stdout.strip() == os.pathsep.join([str(Path("src").resolve()), str(ROOT)])
