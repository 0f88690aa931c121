import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from tests.commands import run_script

from nsh.data import registry
from nsh.data.split import read_header, read_part
from nsh.errors import DataError

ROOT = Path(__file__).parents[2]
SIZES = {"train": 4, "gallery": None, "query": 3}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 20 different images of two classes, with the inventory of the download stage."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for number in range(20):
        path = Path(f"images/{'ab'[number % 2]}/{number}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(path)
    set_params(**SIZES)
    list_images()
    return tmp_path


def set_params(**split: object) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["dataset"].update(name="folder", root="images")
    params["split"].update(split)
    Path("params.yaml").write_text(yaml.safe_dump(params))


def list_images() -> None:
    registry.fetch("folder", raw=Path("data/raw"), root=Path("images"), say=lambda line: None)


def cut(name: str) -> None:
    path = Path("images") / name
    path.write_bytes(path.read_bytes()[:-800])
    list_images()


def run() -> None:
    runpy.run_path(str(ROOT / "pipeline/split.py"))["main"]()


def written() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path("data/split").iterdir()}


def test_it_writes_three_parts_and_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    header = read_header(Path("data/split"))
    assert header["counts"] == {"train": 4, "query": 3, "gallery": 17}
    assert header["classes"] == ["a", "b"]
    assert "split: 4 train, 3 query, 17 gallery; 0 unreadable images and 0 dupl" in capsys.readouterr().out
    query = read_part(Path("data/split"), "query")
    assert [name[0] for name in query.ids] == ["ab"[row] for row in query.labels.argmax(1)]


def test_twice_the_same_bytes(project: Path) -> None:
    run()
    first = written()
    run()
    assert written() == first
    set_params(**SIZES, seed=1)
    run()
    assert written() != first


def test_a_draw_per_class_is_even(project: Path) -> None:
    set_params(train=6, gallery=None, query=4, draw="per_class")
    run()
    for part, share in (("query", 2), ("train", 3)):
        assert read_part(Path("data/split"), part).labels.sum(0).tolist() == [share, share]


def test_a_broken_image_is_left_out_and_listed(project: Path) -> None:
    cut("a/4.jpg")
    set_params(**SIZES, max_bad_share=0.05)
    run()
    assert read_header(Path("data/split"))["unreadable"] == 1
    (entry,) = [json.loads(line) for line in written()["unreadable.jsonl"].splitlines()]
    assert entry["id"] == "a/4.jpg"
    assert "truncated" in entry["error"]
    assert "a/4.jpg" not in [name for part in ("query", "gallery") for name in read_part(Path("data/split"), part).ids]


def test_too_many_broken_images_stop_it_and_the_former_split_stays(project: Path) -> None:
    run()
    first = written()
    cut("a/4.jpg")
    with pytest.raises(DataError, match=r"1 of 20 images cannot be read, allowed is a share of 0.01.*'a/4.jpg'"):
        run()
    assert written() == first


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"train": 50}, "split.train asks for 50 images, but they are drawn out of the gallery, which has 17"),
        ({"query": None}, "split.query is null"),
        (
            {"draw": "per_class"},
            "split.draw: per_class cannot take 3 images evenly from 2 classes: ask for a multiple of 2",
        ),
        ({"seed": -1, "train": 0}, "params.yaml has 2 mistake(s)"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(project: Path, split: dict, message: str) -> None:
    set_params(**{**SIZES, **split})
    done = run_script(ROOT / "pipeline/split.py")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {message}")
    assert "Traceback" not in done.stderr
    assert not Path("data/split").exists()


def test_classes_and_counts_are_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run()
    assert "folder: 20 images of 2 classes: a 10, b 10\n" in capsys.readouterr().out


def test_one_folder_level_too_many_is_refused(project: Path) -> None:
    Path("images").rename("pictures")
    Path("images").mkdir()
    Path("pictures").rename("images/pictures")
    list_images()
    with pytest.raises(DataError, match=r"are of one class, 'pictures', .* \(below it lie a, b\)"):
        run()
    assert not Path("data/split").exists()
