"""The encoder turns any kind of image into the code that its graph gives, and loses none for another's fault."""

import itertools
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import onnxruntime as ort
import pytest
from PIL import Image
from tests.core.image_files import exif
from tests.waiting import PATIENCE

from nsh.core.codes import pack
from nsh.core.preprocess import load_image, to_input
from nsh.core.reading import read_inputs
from nsh.errors import CodesError, ConfigError, UnreadableImage
from nsh.serving.cores import cpu_quota
from nsh.serving.encoder import Encoder


@pytest.fixture(scope="module")
def encoder(encoder_path):
    return Encoder(encoder_path, threads=1)


@pytest.fixture(scope="module")
def pictures(photographs):
    """Four real photographs' crops, 64 x 64, as Pillow images."""
    return [Image.fromarray(pixels) for pixels in photographs[:4]]


def as_png(picture, path):
    picture.save(path)
    return path


def test_a_larger_image_than_allowed_is_unreadable(encoder_path):
    encoder = Encoder(encoder_path, threads=1, max_pixels=15)
    small, large = (np.zeros((rows, 3, 3), np.uint8) for rows in (5, 6))
    code, error = encoder.encode_each([small, large])
    assert isinstance(code, np.ndarray)
    assert "3 x 6 is more than the 15 pixels allowed" in str(error)


def test_the_file_says_what_it_is(encoder, encoder_path, contract):
    assert encoder.contract == replace(contract, identity=encoder.identity)
    assert re.fullmatch("[0-9a-f]{64}", encoder.identity)
    assert encoder.dim == ort.InferenceSession(encoder_path).get_outputs()[2].shape[1]


def test_the_file_alone_in_another_folder_is_enough(encoder, encoder_path, pictures, tmp_path):
    moved = shutil.copy(encoder_path, tmp_path / "ünï code.onnx")
    again = Encoder(moved)
    assert again.identity == encoder.identity
    assert np.array_equal(again.encode(pictures), encoder.encode(pictures))


def test_paths_bytes_pillow_and_arrays_give_the_same_code(encoder, pictures, tmp_path):
    picture = pictures[0]
    path = as_png(picture, tmp_path / "日本 語.png")
    codes = encoder.encode([path, str(path), path.read_bytes(), picture, np.asarray(picture)])
    assert codes.dtype == np.uint8
    assert codes.shape == (5, 2)
    assert (codes == codes[0]).all()
    assert np.array_equal(codes[:1], encoder.run(np.asarray(picture)[None]).code)


def test_a_large_jpeg_gives_one_code_as_path_as_bytes_and_in_training(encoder, pictures, tmp_path):
    path = tmp_path / "large.jpg"
    pictures[0].resize((523, 301)).save(path, exif=b"Exif\0\0" + exif(6))
    content, size, resample = path.read_bytes(), encoder.contract.image_size, encoder.contract.resample
    expected = encoder.run(read_inputs(partial(load_image, size=size), [path], size=size, resample=resample)).code
    assert load_image(content, size=size).size == (151, 262)
    assert np.array_equal(encoder.encode([path, content]), np.repeat(expected, 2, axis=0))


def test_another_size_is_resized_by_the_contract(encoder, pictures):
    large = pictures[0].resize((200, 90))
    expected = encoder.run(to_input(large, size=64, resample="bilinear")[None]).code
    assert np.array_equal(encoder.encode([large]), expected)


@pytest.mark.parametrize("batch", [1, 2, 7, 64])
def test_the_batch_size_does_not_show(encoder, photographs, batch):
    images = photographs[:30]
    assert np.array_equal(encoder.encode(images, batch=batch), encoder.run(images).code)


def test_codes_are_the_logits_packed_and_differ(encoder, photographs):
    code, logit, embedding = encoder.run(photographs[:64])
    assert np.array_equal(code, pack(logit > 0))
    assert len(np.unique(code, axis=0)) > 20
    assert embedding.shape == (64, encoder.dim)


def test_each_image_has_its_outputs_from_one_run(encoder, photographs, monkeypatch):
    images, runs, infer = photographs[:30], [], type(encoder)._infer
    monkeypatch.setattr(type(encoder), "_infer", lambda self, batch: runs.append(len(batch)) or infer(self, batch))
    results = list(encoder.run_each(images, batch=7))
    assert sum(runs) == 30
    for name, expected in encoder.run(images)._asdict().items():
        assert np.array_equal(np.stack([getattr(outputs, name) for outputs in results]), expected)


def test_logits_are_those_of_the_codes(encoder, pictures, photographs):
    logits = encoder.logits(pictures)
    assert (logits.dtype, logits.shape) == (np.float32, (len(pictures), encoder.contract.bits))
    assert np.array_equal(pack(logits > 0), encoder.encode(pictures))
    assert encoder.logits([]).shape == (0, encoder.contract.bits)
    with pytest.raises(UnreadableImage, match="image 1: "):
        encoder.logits([pictures[0], b"hello"])


def test_one_bad_image_costs_no_other_its_code(encoder, pictures, tmp_path):
    cut = as_png(pictures[1], tmp_path / "cut.png")
    cut.write_bytes(cut.read_bytes()[:-800])
    empty = tmp_path / "empty.jpg"
    empty.touch()
    images = [pictures[0], cut, pictures[1], empty, b"hello", tmp_path / "missing.jpg", pictures[2]]
    results = list(encoder.encode_each(images, batch=2))
    errors = [isinstance(result, UnreadableImage) for result in results]
    assert errors == [False, True, False, True, True, True, False]
    expected = encoder.encode(pictures[:3])
    assert [code.tolist() for code, bad in zip(results, errors, strict=True) if not bad] == expected.tolist()
    assert all(str(result) for result, bad in zip(results, errors, strict=True) if bad)


def test_encode_names_the_image_it_cannot_read(encoder, pictures):
    with pytest.raises(UnreadableImage, match="image 1: "):
        encoder.encode([pictures[0], b"hello", pictures[1]])


def test_all_images_bad(encoder):
    assert all(isinstance(result, UnreadableImage) for result in encoder.encode_each([b"", b"x", b"y"]))


def test_no_image(encoder):
    assert encoder.encode([]).shape == (0, 2)
    code, logit, embedding = encoder.run(np.empty((0, 64, 64, 3), np.uint8))
    assert (code.shape, logit.shape, embedding.shape) == ((0, 2), (0, 12), (0, encoder.dim))


@pytest.mark.parametrize("threads", [1, 3])
def test_images_are_read_as_they_are_needed(encoder_path, pictures, threads):
    taken = []

    def stream():
        for number in range(100):
            taken.append(number)
            yield pictures[number % 4]

    results = Encoder(encoder_path, threads=threads).encode_each(stream(), batch=2)
    for yielded in range(1, 30):
        next(results)
        assert len(taken) <= yielded + 1 + 2 * (threads + 1)
    results.close()
    assert len(taken) < 40


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_code_depends_on_threads_and_a_bad_image_costs_no_other_its_code(
    encoder, encoder_path, photographs, threads
):
    images = [b"bad" if row % 7 == 3 else pixels for row, pixels in enumerate(photographs[:60])]
    expected = [None if isinstance(image, bytes) else encoder.run(image[None]).code[0].tolist() for image in images]
    several = Encoder(encoder_path, threads=threads)
    for source in (images, iter(images)):
        found = [None if isinstance(code, UnreadableImage) else code.tolist() for code in several.encode_each(source)]
        assert found == expected
    assert all(map(np.array_equal, several.run(photographs[:61]), encoder.run(photographs[:61])))


def test_decoding_overlaps_inference(encoder_path, pictures, monkeypatch):
    """While one batch is inside the graph, another is decoded: each waits for the other here, and neither for ever."""
    encoder = Encoder(encoder_path, threads=2)
    decoding, inferring = threading.Event(), threading.Event()
    original, prepare, calls, turns = encoder._infer, encoder._prepare, [], itertools.count(1)

    def infer(batch):
        if len(calls) <= 2:
            inferring.set()
            assert decoding.wait(PATIENCE)
        return original(batch)

    def decode(source):
        turn = next(turns)
        calls.append(source)
        if turn == 2:
            assert inferring.wait(PATIENCE)
            decoding.set()
        return prepare(source)

    monkeypatch.setattr(encoder, "_infer", infer)
    monkeypatch.setattr(encoder, "_prepare", decode)
    assert encoder.encode(pictures, batch=1).shape == (4, 2)


def test_the_same_opened_image_may_stand_in_many_places(encoder_path, pictures, tmp_path):
    path = as_png(pictures[0].resize((900, 700)), tmp_path / "a.png")
    encoder = Encoder(encoder_path, threads=8)
    expected = encoder.encode([path])[0]
    for _ in range(5):
        with Image.open(path) as image:
            assert (encoder.encode([image] * 16) == expected).all()


def test_several_threads_may_use_one_encoder(encoder, photographs):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda start: encoder.encode(photographs[start : start + 20]), range(0, 200, 20)))
    assert np.array_equal(np.concatenate(found), encoder.run(photographs[:200]).code)


def test_a_failure_that_is_no_image_stops_the_work(encoder, pictures):
    def stream():
        yield pictures[0]
        raise RuntimeError("the user's own iterator")

    with pytest.raises(RuntimeError, match="own iterator"):
        encoder.encode(stream(), batch=1)


def test_threads_are_those_of_the_container_unless_said(encoder_path):
    assert Encoder(encoder_path).threads == cpu_quota()
    with pytest.raises(ConfigError, match="found threads = 0"):
        Encoder(encoder_path, threads=0)


def test_an_empty_batch_size_is_refused(encoder, pictures):
    with pytest.raises(ConfigError, match="found batch = 0"):
        encoder.encode(pictures, batch=0)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="this onnxruntime has CUDA")
def test_cuda_that_is_not_there_is_an_error_unless_the_cpu_is_allowed(encoder_path, pictures):
    with pytest.raises(ConfigError, match="device cuda was asked for"):
        Encoder(encoder_path, device="cuda")
    fallen = Encoder(encoder_path, device="cuda", allow_cpu=True)
    assert fallen.device == "cpu"
    assert np.array_equal(fallen.encode(pictures), Encoder(encoder_path).encode(pictures))
    with pytest.raises(ConfigError, match="found device 'gpu'"):
        Encoder(encoder_path, device="gpu", allow_cpu=True)


@pytest.mark.parametrize("one", ["a.jpg", b"bytes", Image.new("RGB", (4, 4)), np.zeros((8, 8, 3), np.uint8)])
def test_one_image_is_not_taken_for_many(encoder, one):
    with pytest.raises(CodesError, match="put it in a list"):
        encoder.encode(one)


@pytest.mark.parametrize(
    "batch",
    [
        np.zeros((2, 64, 64, 3), np.float32),
        np.zeros((64, 64, 3), np.uint8),
        np.zeros((2, 32, 32, 3), np.uint8),
        np.zeros((2, 3, 64, 64), np.uint8),
    ],
)
def test_a_batch_of_another_shape_is_refused(encoder, batch):
    with pytest.raises(CodesError, match=r"the encoder takes uint8 \[n, 64, 64, 3\]"):
        encoder.run(batch)


ENCODE = """
import sys
from nsh.serving.encoder import Encoder
print(Encoder(sys.argv[1]).encode([sys.argv[2]]).tobytes().hex())
print(sorted({"torch", "torchvision", "onnx", "mlflow", "dvc", "pydantic", "pyarrow"} & set(sys.modules)))
"""


def test_encoding_needs_neither_torch_nor_onnx_nor_operations(encoder, encoder_path, pictures, tmp_path):
    path = as_png(pictures[0], tmp_path / "a.png")
    run = subprocess.run([sys.executable, "-c", ENCODE, encoder_path, path], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == [encoder.encode([path]).tobytes().hex(), "[]"]
