"""The encode stage: two routes to the same codes, each proved; a cut run goes on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.commands import run_script

from nsh.core.codes import pack
from nsh.core.manifest import read_codes
from nsh.core.query_logits import read_logits
from nsh.data.split import read_part
from nsh.errors import CodesError, DataError
from nsh.export import encoding
from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file

ROOT = Path(__file__).parents[2]
BITS = 12
MODEL = Path(f"models/itq-{BITS}/encoder.onnx")
CODES = Path(f"codes/itq-{BITS}")


@pytest.fixture
def project(exported_project):
    return exported_project


def change_header(**changes) -> None:
    path = Path("data/embed/embed.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_codes_are_those_of_the_images_in_the_order_of_the_split(project, run):
    run("encode")
    encoder = Encoder(MODEL)
    for part in ("query", "gallery"):
        found, rows = read_codes(CODES / part), read_part(Path("data/split"), part)
        assert found.ids == rows.ids
        assert np.array_equal(found.codes, encoder.encode([Path("images") / name for name in rows.ids]))
        assert found.errors == []
        assert found.header["encoder_identity"] == encoder.identity
        assert found.header["notes"]["route"] == "embeddings"
        assert found.header["notes"]["part"] == part
    assert len(np.unique(found.codes, axis=0)) > 50
    query = read_codes(CODES / "query")
    logits = read_logits(CODES / "query", query)
    assert np.array_equal(pack(logits > 0), query.codes)
    exact = encoder.logits([Path("images") / name for name in query.ids])
    np.testing.assert_allclose(logits, exact, rtol=0, atol=1e-4 * np.abs(exact).max())  # a head of its own may round
    assert not list((CODES / "gallery").glob("*.logits.npy"))


def test_the_manifest_carries_paths_and_content_digests(project, run):
    run("encode")
    rows = [json.loads(line) for line in (CODES / "query/00000.jsonl").read_text().splitlines()]
    for row in rows:
        assert row["path"] == row["id"]
        assert row["sha256"] == sha256_file(Path("images") / row["path"])
        assert (row["status"], row["error"]) == ("ok", None)


@pytest.mark.parametrize(
    "changes", [{"backbone_sha256": "0" * 64}, {"split_sha256": "0" * 64}, {"device": "cuda"}, {"resample": "bicubic"}]
)
def test_foreign_embeddings_are_not_used_and_the_codes_are_the_same(project, run, changes):
    run("encode")
    first = {part: read_codes(CODES / part).codes for part in ("query", "gallery")}
    change_header(**changes)
    run("encode")
    for part, codes in first.items():
        found = read_codes(CODES / part)
        assert found.header["notes"]["route"] == "images"
        assert np.array_equal(found.codes, codes)
    query = read_codes(CODES / "query")
    assert np.array_equal(pack(read_logits(CODES / "query", query) > 0), query.codes)


def test_another_graph_in_the_folder_is_seen_by_its_content(project, run):
    with Path("data/embed/backbone.onnx").open("ab") as file:
        file.write(b"\0")
    run("encode")
    assert read_codes(CODES / "query").header["notes"]["route"] == "images"


def test_an_embedding_that_is_not_the_images_fails_by_name(project, run):
    path, row = Path("data/embed/gallery.npy"), 17
    embeddings = np.load(path)
    embeddings[row] = -embeddings[row]
    np.save(path, embeddings)
    name = read_part(Path("data/split"), "gallery").ids[row]
    with pytest.raises(CodesError, match=f"1 of 200 images differ .* first '{name}'"):
        run("encode")
    assert not CODES.exists()


@pytest.mark.parametrize(("shape", "message"), [((199, 1280), "of 199 images"), ((200, 512), r"\[200, 512\]")])
def test_embeddings_of_another_shape_are_refused(project, run, shape, message):
    np.save("data/embed/gallery.npy", np.zeros(shape, np.float32))
    with pytest.raises(CodesError, match=message):
        run("encode")


def test_a_cut_run_goes_on_and_gives_the_same_bytes(project, run, monkeypatch):
    change_header(device="cuda")  # the long way, where it matters
    monkeypatch.setattr(encoding, "SHARD_ROWS", 32)
    run("encode")
    whole = files(CODES)
    shutil.rmtree("codes")

    loaded: list[str] = []
    real = encoding.PartEncoder._from_images

    def cut_in_the_gallery(encoder, part, shard):
        if len(part.ids) == 200 and shard.start == 96:
            raise KeyboardInterrupt
        return real(encoder, part, shard)

    monkeypatch.setattr(encoding.PartEncoder, "_from_images", cut_in_the_gallery)
    with pytest.raises(KeyboardInterrupt):
        run("encode")
    assert not CODES.exists()

    def note(encoder, part, shard):
        loaded.extend(part.ids[row] for row in shard)
        return real(encoder, part, shard)

    monkeypatch.setattr(encoding.PartEncoder, "_from_images", note)
    run("encode")
    assert files(CODES) == whole
    assert loaded == read_part(Path("data/split"), "gallery").ids[96:]
    assert not any(Path(".cache/nsh/encode").iterdir())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_encoder_is_opened_once(project, run, monkeypatch, device):
    change_header(device=device)  # from embeddings, and from images
    opened, start = [], Encoder.__init__

    def count(self, path, **options):
        opened.append(path)
        start(self, path, **options)

    monkeypatch.setattr(Encoder, "__init__", count)
    run("encode")
    assert opened == [MODEL]


def test_an_image_that_broke_since_the_split_is_named(project, run):
    change_header(device="cuda")
    name = read_part(Path("data/split"), "query").ids[3]
    (Path("images") / name).write_bytes(b"hello")
    with pytest.raises(DataError, match=name):
        run("encode")
    Image.new("RGB", (4, 4)).save(Path("images") / name)
    assert not CODES.exists()


def test_a_missing_encoder_is_one_sentence_and_exit_code_2(project):
    MODEL.unlink()
    done = run_script(ROOT / "pipeline/encode.py", "--method", "itq", "--bits", BITS)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no encoder at")
    assert "Traceback" not in done.stderr


def test_encoding_loads_no_torch():
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print(sorted({'torch', 'mlflow'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, ROOT / "pipeline/encode.py"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
