"""`nsh info` and `nsh encode` as their users start them: exit codes, what is printed where, and kills."""

import json
import os
import pty
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from tests.commands import run_nsh
from tests.waiting import PATIENCE, wait_until

from nsh.core.manifest import read_codes
from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_file

NSH = [sys.executable, "-m", "nsh.cli"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(photographs, encoder_path, folder):
    """The working folder, with a dozen photographs and an encoder."""
    (folder / "photos").mkdir()
    for row in range(12):
        Image.fromarray(photographs[row]).save(folder / "photos" / f"{row:02} 語.png")
    (folder / "encoder.onnx").symlink_to(encoder_path)
    return folder


def words(*arguments, images="photos"):
    return ["encode", images, "--model", "encoder.onnx", "--out", "codes", *arguments]


def encode(*arguments, images="photos"):
    return run_nsh(*words(*arguments, images=images))


def encode_apart(*, images="photos", stdin=b""):
    """In a process of its own."""
    return subprocess.run([*NSH, *words(images=images)], input=stdin, capture_output=True, check=False)


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(project, forbid):
    """`nsh encode … && nsh index update …` would remove its images from the index."""
    (project / "photos" / "kept").mkdir()
    assert encode().returncode == 0
    forbid("kept")
    run = encode()
    assert run.returncode == 1
    assert "left out: 1 folders that cannot be read" in run.stdout


def test_all_well_is_exit_code_0_one_line_and_nothing_on_standard_error(project):
    run = encode_apart()
    assert (run.returncode, run.stdout, run.stderr) == (0, b"codes: 12 codes of 12 bits\n", b"")
    codes = read_codes(project / "codes")
    paths = [project / "photos" / image_id for image_id in codes.ids]
    assert np.array_equal(codes.codes, Encoder(project / "encoder.onnx").encode(paths))


def test_some_bad_is_exit_code_1_again_and_again_and_each_is_named(project):
    (project / "photos/bad\n.jpg").write_bytes(b"bad")
    (project / "photos/notes.txt").touch()
    for change in ("", "; images: 13 kept, 0 new, 0 changed, 0 gone"):
        run = encode()
        assert run.returncode == 1
        left_out = "left out: 1 files that are no images by name\n"
        assert run.stdout == f"codes: 12 codes of 12 bits{change}\n{left_out}"
        first, second = run.stderr.splitlines()
        assert first == "1 of 13 images could not be decoded:"
        assert second.startswith('  "bad\\n.jpg": not an image')


def test_the_limit_on_pixels_is_an_option_and_its_error_names_it(project):
    Image.new("RGB", (65, 64)).save(project / "photos/wide.png")
    run = encode("--max-pixels", 64 * 64)
    assert run.returncode == 1
    assert "wide.png" in run.stderr
    assert "65 x 64 is more than the 4096 pixels allowed" in run.stderr
    assert "--max-pixels" in run.stderr


def test_many_bad_are_counted_and_the_table_is_named(project):
    for number in range(15):
        (project / f"photos/bad{number}.jpg").write_bytes(b"bad")
    lines = encode().stderr.splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 5 more: see codes/errors.jsonl"
    assert len((project / "codes/errors.jsonl").read_text().splitlines()) == 15


@pytest.mark.parametrize(
    ("images", "more", "message"),
    [
        ("gone", [], "there is no image and no folder at gone"),
        ("encoder.onnx", [], "not one of the 1 images could be decoded"),
        ("photos", ["--model", "gone.onnx"], "there is no encoder at gone.onnx"),
        ("photos", ["--shard", "0/2"], "found shard '0/2'"),
        ("photos", ["--device", "gpu"], "found device 'gpu'"),
        ("photos", ["--out", "photos"], "nothing is written beside images"),
        ("photos", ["--model", "https://example.org/encoder.onnx"], "#sha256=<64 hex digits>"),
        ("shards.tar", [], "shards.tar is no whole TAR archive"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(project, images, more, message):
    (project / "shards.tar").write_bytes(b"cut")
    run = encode(*more, images=images)
    assert run.returncode == 2
    assert run.stdout == ""
    assert re.fullmatch(rf"error: .*{re.escape(message)}.*\n", run.stderr)


def test_json_is_the_whole_of_standard_output(project):
    (project / "photos/bad.jpg").write_bytes(b"bad")
    run = encode("--json")
    assert run.returncode == 1
    assert json.loads(run.stdout) == {
        "out": "codes",
        "images": 13,
        "encoded": 12,
        "failed": 1,
        "kept": 0,
        "new": 13,
        "changed": 0,
        "gone": 0,
        "complete": True,
        "left_out": {},
        "bits": 12,
        "encoder_identity": Encoder(project / "encoder.onnx").identity,
        "device": "cpu",
    }


def test_a_list_comes_through_a_pipe_with_any_name(project):
    names = [b"photos/00 \xe8\xaa\x9e.png", b"photos/new\nline.png", b"gone.jpg"]
    (project / "photos/01 語.png").rename(project / "photos/new\nline.png")
    run = encode_apart(images="-", stdin=b"\0".join(names))
    assert run.returncode == 1
    codes = read_codes(project / "codes")
    assert codes.ids == ["photos/00 語.png", "photos/new\nline.png"]
    assert [entry.id for entry in codes.errors] == ["gone.jpg"]


def test_shards_make_the_folder_between_them(project):
    first = encode("--shard", "1/2")
    assert first.returncode == 0
    assert "other shards are still missing" in first.stdout
    assert encode("--shard", "2/2").stdout == "codes: 6 codes of 12 bits\n"
    assert len(read_codes(project / "codes").ids) == 12


def test_shards_may_run_at_once(project):
    commands = [[*NSH, *words("--shard", f"{number}/3")] for number in (1, 2, 3)]
    running = [subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE) for command in commands]
    errors = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], errors
    assert len(read_codes(project / "codes").ids) == 12


COMMAND = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from nsh.serving import bulk
from nsh.serving.encoder import Encoder
bulk.SHARD_ROWS = 2
original, shutdown, batches, stopped = Encoder.encode_batch, ThreadPoolExecutor.shutdown, [], threading.Event()
def encode_batch(self, sources):
    batches.append(sources)
    HOLD
    return original(self, sources)
def stop(self, *arguments, **keywords):
    stopped.set()
    shutdown(self, *arguments, **keywords)
Encoder.encode_batch, ThreadPoolExecutor.shutdown = encode_batch, stop
from nsh.cli import main
sys.argv = ["nsh", "encode", "photos", "--model", "encoder.onnx", "--out", "codes", "--batch", "1", "--threads", "1"]
main()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_run_goes_on(project, number):
    """The real command, which goes no further than to the ninth image, killed once two shards are there."""
    command = COMMAND.replace("HOLD", "len(batches) < 9 or stopped.wait()")
    process = subprocess.Popen([sys.executable, "-c", command], cwd=project, stderr=subprocess.DEVNULL)
    wait_until((project / "codes/00001.jsonl").exists)
    process.send_signal(number)
    assert process.wait(PATIENCE) == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert not (project / "codes/header.json").exists()
    run = encode("--json")
    assert run.returncode == 0
    assert 4 <= json.loads(run.stdout)["kept"] < 12
    codes = read_codes(project / "codes")
    expected = Encoder(project / "encoder.onnx").encode([project / "photos" / image_id for image_id in codes.ids])
    assert np.array_equal(codes.codes, expected)


def test_a_bar_moves_on_a_terminal_and_leaves_the_line_clean(project):
    """Slowed down to more than a second; standard error is a real pseudo-terminal."""
    ours, theirs = pty.openpty()
    slow = COMMAND.replace("HOLD", "time.sleep(0.3)")
    with subprocess.Popen([sys.executable, "-c", slow], cwd=project, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert out == b"codes: 12 codes of 12 bits\n"
    assert b"encode" in shown
    assert b"/12" in shown


def test_info_says_what_the_encoder_is(project):
    run = run_nsh("info", "encoder.onnx")
    assert run.returncode == 0
    text = run.stdout
    assert "12 bits in 2 bytes" in text
    assert "RGB 64 x 64" in text
    assert sha256_file(project / "encoder.onnx") in text
    described = json.loads(run_nsh("info", "encoder.onnx", "--json").stdout)
    assert described["bits"] == 12
    assert described["sha256"] == sha256_file(project / "encoder.onnx")
    encoder = Encoder(project / "encoder.onnx")
    assert described["embedding"] == encoder.dim
    assert described["identity"] == encoder.identity
    assert described["provenance"]["split_sha256"] == encoder.contract.split_sha256
    decides, provenance = text.split("provenance\n")
    assert encoder.identity in decides
    assert sha256_file(project / "encoder.onnx") in provenance


@pytest.mark.parametrize("command", ["info", "encode"])
def test_help_teaches_with_an_example(folder, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "120")
    run = run_nsh(command, "--help")
    assert run.returncode == 0
    assert f"nsh {command} " in run.stdout


def without(*packages):
    """The command in an installation that lacks these packages."""
    hidden = "".join(f"sys.modules[{name!r}] = None; " for name in packages)
    return f"import sys; {hidden}from nsh.cli import main; main()"


@pytest.mark.parametrize(
    ("missing", "extra", "arguments"),
    [
        ("mlflow", "ops", ["registry", "pull", "a@b", "--out", "encoder.onnx"]),
        ("mlflow", "ops", ["info", "models:/a@b"]),
        ("onnxruntime", "serve", ["info", "encoder.onnx"]),
        ("fsspec", "remote", ["encode", "s3://bucket/photos", "--model", "encoder.onnx", "--out", "codes"]),
        ("pyarrow", "parquet", ["encode", "a.parquet", "--model", "encoder.onnx", "--out", "codes"]),
    ],
)
def test_a_missing_extra_is_named(tmp_path, encoder_path, missing, extra, arguments):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    for name in ("mlflow.db", "a.parquet"):
        (tmp_path / name).touch()
    (tmp_path / "encoder.onnx").symlink_to(encoder_path)
    command = [sys.executable, "-c", without(missing), *arguments]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
    assert run.returncode == 2
    assert run.stderr == f"error: this command needs {missing}: pip install 'nsh[{extra}]'\n"


def test_help_loads_nothing_heavy():
    code = "import sys, nsh.cli; print({'onnxruntime', 'numpy', 'PIL', 'faiss', 'fastapi'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
