import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import yaml

from nsh.core.preprocess import PREPROCESSING, load_image, to_input
from nsh.data.split import read_header, read_part
from nsh.errors import ConfigError, DataError
from nsh.serving.session import open_session
from nsh.system.files import sha256_file
from nsh.training import embed
from nsh.training.augment import augment, view_generator

EMBED = Path("data/embed")
PARTIAL = Path(".cache/nsh/embed")


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in EMBED.iterdir()}


def set_params(**blocks: dict) -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    for block, values in blocks.items():
        params[block].update(values)
    Path("params.yaml").write_text(yaml.safe_dump(params))


def embed_plainly(images: np.ndarray) -> np.ndarray:
    return open_session(EMBED / "backbone.onnx", threads=1).run(["embedding"], {"image": images})[0]


def at(name: str) -> Path:
    return Path("images") / name


@pytest.fixture
def quick(project, stage):
    """The stage with the graph that its first run exported: exporting again takes longer than all the rest."""
    module = stage("embed")
    model = onnx.load(EMBED / "backbone.onnx")
    module.export_backbone = lambda backbone, *, image_size: model
    return module


class Counted:
    """The stage's embedder, counting the images it is given."""

    def __init__(self, module, monkeypatch) -> None:
        self.images = 0
        opened = module.open_embedder

        def open_counted(*arguments, **options):
            embed = opened(*arguments, **options)

            def counted(images):
                self.images += len(images)
                return embed(images)

            return counted

        monkeypatch.setattr(module, "open_embedder", open_counted)


class TestOutputs:
    def test_every_row_is_the_embedding_of_the_splits_image(self, project):
        for part in ("train", "query", "gallery"):
            ids = read_part(Path("data/split"), part).ids
            found = np.load(EMBED / f"{part}.npy")
            assert found.dtype == np.float32
            assert found.shape == (len(ids), 1280)
            rows = range(0, len(ids), 9)
            inputs = np.stack([to_input(load_image(at(ids[row])), size=64, resample="bilinear") for row in rows])
            assert np.abs(found[rows] - embed_plainly(inputs)).max() < 1e-5

    def test_every_view_is_the_one_its_seed_draws(self, project):
        ids = read_part(Path("data/split"), "train").ids
        found = np.load(EMBED / "views.npy")
        assert found.dtype == np.float16
        assert found.shape == (len(ids), 2, 1280)
        for row, view in [(0, 0), (41, 1), (79, 0)]:
            generator = view_generator(0, image=row, view=view)
            pixels = augment(load_image(at(ids[row])), generator, size=64, resample="bilinear")
            assert np.abs(found[row, view] - embed_plainly(pixels[None])[0]).max() < 2e-2

    def test_the_header_says_what_the_embeddings_depend_on(self, project):
        assert json.loads((EMBED / "embed.json").read_text()) == {
            "backbone": "mobilenet_v2",
            "weights": "file:weights.pt",
            "weights_sha256": sha256_file(Path("weights.pt")),
            "image_size": 64,
            "resample": "bilinear",
            "dim": 1280,
            "views": 2,
            "seed": 0,
            "backbone_sha256": sha256_file(EMBED / "backbone.onnx"),
            "preprocessing": PREPROCESSING,
            "device": "cpu",
            "split_sha256": read_header(Path("data/split"))["sha256"],
        }

    def test_nothing_partial_is_left(self, project):
        assert list(PARTIAL.iterdir()) == []


class TestRuns:
    def test_another_run_with_other_threads_changes_no_byte(self, project, stage, capsys):
        before = files()
        set_params(compute={"threads": 1})
        stage("embed").main()
        assert files() == before
        said = capsys.readouterr().out
        assert "embed: 260 images in " in said
        assert "embed: 160 views in " in said

    def test_an_interrupted_run_is_taken_up(self, quick, monkeypatch):
        before = files()

        def interrupt(*arguments, **options):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(embed, "embed_views", interrupt)
            with pytest.raises(KeyboardInterrupt):
                quick.main()
        assert files() == before
        counted = Counted(quick, monkeypatch)
        quick.main()
        assert counted.images == 160
        assert files() == before

    def test_other_settings_never_take_up_the_partial_state(self, quick, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(embed, "_write", lambda *arguments, **options: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                quick.main()
        set_params(embed={"seed": 5})
        counted = Counted(quick, monkeypatch)
        before = files()
        quick.main()
        assert counted.images == 260 + 160
        after = files()
        assert {name for name in after if after[name] != before[name]} == {"views.npy", "embed.json"}


class TestFailures:
    def test_an_image_that_was_cut_since_the_download_is_named_and_nothing_is_written(self, quick):
        before = files()
        name = read_part(Path("data/split"), "query").ids[3]
        at(name).write_bytes(b"")
        with pytest.raises(DataError, match=f"'{name}' has changed since the download stage: run `dvc repro` again"):
            quick.main()
        assert files() == before

    @pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
    def test_cuda_asked_for_where_there_is_none(self, project, stage):
        set_params(compute={"device": "cuda"})
        with pytest.raises(ConfigError, match="found cuda, torch sees 0 CUDA devices: choose auto or cpu"):
            stage("embed").main()

    def test_weights_of_another_network(self, project, stage):
        set_params(backbone={"name": "resnet18"})
        with pytest.raises(DataError, match="the weights are not this network's: missing bn1"):
            stage("embed").main()
