"""Opens and runs ONNX files with onnxruntime, with explicit threads and device. Knows no image, code or contract."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from nsh.errors import CodesError, ConfigError
from nsh.system.progress import Progress, no_progress

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"


def open_session(model: Path | bytes, *, threads: int, device: str = "cpu") -> ort.InferenceSession:
    """Open a model for inference.

    Args:
        model: an ONNX file, or its bytes.
        threads: threads inside one operator, >= 1. Required, because onnxruntime would count the host's cores, not the
            container's, and because results are equal only for equal threads.
        device: "cpu", "cuda", "cuda:<n>", or "auto": CUDA if this onnxruntime supports it, else the CPU.

    Raises:
        ConfigError: fewer than one thread, an unknown device, or CUDA is not available.
        CodesError: no such file, a folder, no right to read it, or no ONNX model that this onnxruntime can run.
    """
    if threads < 1:
        raise ConfigError(f"found threads = {threads}: at least 1 is needed")
    providers = _choose_providers(device)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: onnxruntime's warnings are about its own graph rewriting
    source = _source(model)
    name = "the model" if isinstance(model, bytes) else str(model)
    try:
        with warnings.catch_warnings(action="ignore"):  # a missing provider is an error below
            session = ort.InferenceSession(source, options, providers=providers)
    except Exception as error:  # onnxruntime has a dozen kinds, all direct subclasses of Exception
        raise CodesError(f"{name} is not an ONNX file that onnxruntime {ort.__version__} can run: {error}") from error
    if session.get_providers()[0] != _provider_name(providers[0]):
        raise ConfigError(f"device {device} was asked for, onnxruntime gave {session.get_providers()[0]}: check CUDA")
    return session


def run_batches(
    session: ort.InferenceSession,
    outputs: Sequence[str],
    rows: NDArray[Any],
    *,
    batch: int,
    progress: Progress = no_progress,
    desc: str = "",
) -> list[NDArray[Any]]:
    """Run a model with one input over all rows, batch by batch.

    Args:
        session: the opened model.
        outputs: names of the wanted outputs.
        rows: [n, ...], n >= 1, in the shape of the model's input.
        batch: rows at a time, >= 1.
        progress: shows the batches.
        desc: the label of the progress bar.

    Returns:
        For each of `outputs` an array [n, ...].
    """
    name, starts = session.get_inputs()[0].name, range(0, len(rows), batch)
    shown = progress(starts, desc=desc, total=len(starts))
    parts = [session.run(list(outputs), {name: rows[start : start + batch]}) for start in shown]
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def _source(model: Path | bytes) -> bytes | str:
    if isinstance(model, bytes):
        return model
    if model.is_dir():
        raise CodesError(f"{model} is a folder: give an .onnx file, such as {model / 'encoder.onnx'}")
    if not model.is_file():
        raise CodesError(f"there is no encoder at {model}: make it with `dvc repro`, or give the path of an .onnx file")
    try:
        model.open("rb").close()
    except OSError as error:  # onnxruntime would say that it is no ONNX file
        raise CodesError(f"{model} cannot be read ({error.strerror}): give yourself the right to it") from error
    return str(model)


def _choose_providers(device: str) -> list[str | tuple[str, dict[str, str]]]:
    kind, _, index = device.partition(":")
    available = ort.get_available_providers()
    if kind == "auto":
        kind = "cuda" if CUDA in available else "cpu"
    if kind == "cpu" and not index:
        return [CPU]
    if kind != "cuda" or (index and not index.isdecimal()):
        raise ConfigError(f"found device {device!r}, allowed are auto, cpu, cuda and cuda:<n>")
    if CUDA not in available:
        raise ConfigError(
            f"device {device} was asked for, but this onnxruntime offers {', '.join(available)}: "
            "install onnxruntime-gpu instead of onnxruntime, or choose device cpu"
        )
    # TF32 and the autotuner's choice of convolution both change bits from run to run.
    options = {"device_id": index or "0", "use_tf32": "0", "cudnn_conv_algo_search": "DEFAULT"}
    return [(CUDA, options), CPU]


def _provider_name(provider: str | tuple[str, dict[str, str]]) -> str:
    return provider if isinstance(provider, str) else provider[0]
