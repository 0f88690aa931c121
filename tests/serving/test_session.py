"""One way to open a model: what was asked for is given, or one sentence says why not."""

import errno
import os
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from nsh.errors import CodesError, ConfigError
from nsh.serving.session import open_session, run_batches


def test_threads_are_what_was_asked_for(encoder_path):
    options = open_session(encoder_path, threads=3).get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 1)


def test_a_file_and_its_bytes_are_the_same_model(encoder_path, photographs):
    feed = {"image": photographs[:2]}
    [from_file] = open_session(encoder_path, threads=1).run(["code"], feed)
    [from_bytes] = open_session(encoder_path.read_bytes(), threads=1).run(["code"], feed)
    assert np.array_equal(from_file, from_bytes)


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_batches_are_joined_in_order_whatever_their_length(encoder_path, photographs, batch):
    session, seen = open_session(encoder_path, threads=1), []

    def watch(batches, *, desc, total):
        seen.append((desc, total))
        return batches

    found = run_batches(session, ["code", "embedding"], photographs[:7], batch=batch, progress=watch, desc="seven")
    code, embedding = session.run(["code", "embedding"], {"image": photographs[:7]})
    assert np.array_equal(found[0], code)
    assert np.allclose(found[1], embedding, atol=1e-4)
    assert seen == [("seven", -(-7 // batch))]


@pytest.mark.parametrize("threads", [0, -1])
def test_no_thread_is_refused(encoder_path, threads):
    with pytest.raises(ConfigError, match="at least 1"):
        open_session(encoder_path, threads=threads)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(CodesError, match=r"^there is no encoder at .*missing\.onnx"):
        open_session(tmp_path / "missing.onnx", threads=1)


def test_a_folder_is_told_from_a_missing_file(tmp_path):
    with pytest.raises(CodesError, match=r"is a folder: give an \.onnx file, such as .*encoder\.onnx$"):
        open_session(tmp_path, threads=1)


def test_a_file_without_the_right_to_read_is_not_called_broken(encoder_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "open", refuse)  # root reads everything
    with pytest.raises(CodesError, match=r"cannot be read \(Permission denied\)"):
        open_session(encoder_path, threads=1)


@pytest.mark.parametrize("kept", [0, 7, 1000])
def test_a_cut_file_is_one_sentence(encoder_path, tmp_path, kept):
    path = tmp_path / "cut.onnx"
    path.write_bytes(encoder_path.read_bytes()[:kept])
    with pytest.raises(CodesError, match=r"cut\.onnx is not an ONNX file"):
        open_session(path, threads=1)
    with pytest.raises(CodesError, match="the model is not an ONNX file"):
        open_session(path.read_bytes(), threads=1)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "cpu:1", ""])
def test_an_unknown_device_is_refused(encoder_path, device):
    with pytest.raises(ConfigError, match="allowed are auto, cpu, cuda"):
        open_session(encoder_path, threads=1, device=device)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="this onnxruntime has CUDA")
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_cuda_that_is_not_there_is_an_error_not_the_cpu(encoder_path, device):
    with pytest.raises(ConfigError, match="install onnxruntime-gpu instead of onnxruntime"):
        open_session(encoder_path, threads=1, device=device)


@pytest.mark.skipif("CUDAExecutionProvider" in ort.get_available_providers(), reason="this onnxruntime has CUDA")
def test_auto_without_cuda_is_the_cpu(encoder_path):
    assert open_session(encoder_path, threads=1, device="auto").get_providers() == ["CPUExecutionProvider"]


def test_cuda_that_fails_to_start_is_an_error_not_the_cpu(encoder_path, monkeypatch):
    """onnxruntime falls back in silence when a provider it lists cannot start."""
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(ConfigError, match="was asked for, onnxruntime gave CPUExecutionProvider"):
        open_session(encoder_path, threads=1, device="cuda")
