"""The production encoder: one ONNX file turns images into packed codes, with onnxruntime, numpy and Pillow alone.

It reads all settings from the file's contract. Does not know where codes are stored or searched.

Each thread decodes a batch and runs it through the graph on one core. So decoding, for which Pillow releases Python's
lock, overlaps inference; no thread spins inside an operator; and no code depends on the number of threads. On CUDA one
thread at a time uses the device while the others decode.
"""

import threading
from collections.abc import Iterable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from PIL import Image

from nsh.core.codes import code_bytes, first_bits
from nsh.core.identity import read_contract
from nsh.core.limits import MAX_PIXELS
from nsh.core.preprocess import PREPROCESSING, ImageSource, load_input
from nsh.core.reference import ReferenceProfile, read_reference
from nsh.errors import CodesError, ConfigError, UnreadableImage
from nsh.serving.cores import cpu_quota
from nsh.serving.session import CPU, open_session
from nsh.system.threads import map_ordered

OUTPUTS = ["code", "logit", "embedding"]
BATCH = 16
"""Images that run through the graph at a time: more are no faster on a CPU, and each thread holds a batch."""

_GUARDS = 64  # locks that Pillow images share by their address


class Outputs(NamedTuple):
    """The graph's outputs for n images; for a single image without the first axis."""

    code: NDArray[np.uint8]  # [n, ceil(bits / 8)], packed
    logit: NDArray[np.float32]  # [n, bits]
    embedding: NDArray[np.float32]  # [n, d]

    def each(self) -> Iterator["Outputs"]:
        """The outputs of each image."""
        return (Outputs(*rows) for rows in zip(*self, strict=True))

    def first(self, bits: int) -> "Outputs":
        """The outputs for a single image, with the first `bits` bits of its code and their logits."""
        return self._replace(code=first_bits(self.code[None], bits=bits)[0], logit=self.logit[:bits])


class Encoder:
    """An opened encoder file. Several threads may use it at once.

    Attributes:
        path: of the file.
        max_pixels: largest width x height of an image.
        contract: the file's metadata.
        reference: what its codes look like on held-out images; None in a file without it.
        dim: length of an embedding.
        device: "cpu" or "cuda": where it runs.
        threads: cores it uses at most.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        threads: int | None = None,
        device: str = "cpu",
        allow_cpu: bool = False,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        """Open the encoder at `path`.

        Args:
            path: the ONNX file.
            threads: cores to use, >= 1; None: all that this container may use (`cpu_quota`).
            device: `cpu`, `cuda`, `cuda:<n>`, or `auto`: CUDA if this onnxruntime supports it, else the CPU.
            allow_cpu: if CUDA is not available, run on the CPU instead of raising; `device` says so.
            max_pixels: largest width x height of an image, >= 1; a larger one is unreadable. Each thread decodes one
                image at a time, in 4 to 8 bytes a pixel.

        Raises:
            CodesError: there is no such file, it is no encoder that this version of `nsh` reads, it has changed since
                its export, or it was made for another version of the preprocessing.
            ConfigError: `threads` is below 1, or the device is not available.
        """
        path = self.path = Path(path)
        self.max_pixels = max_pixels
        self.threads = cpu_quota() if threads is None else threads
        if self.threads < 1:
            raise ConfigError(f"found threads = {threads}: at least 1 is needed")
        self._session = _open(path, device, allow_cpu=allow_cpu)
        content = path.read_bytes()
        self.contract = read_contract(content, name=str(path))
        if self.contract.preprocessing != PREPROCESSING:
            raise CodesError(
                f"{path} was made with version {self.contract.preprocessing} of the preprocessing, this nsh has "
                f"version {PREPROCESSING}, whose pixels differ: export the encoder again, then encode all images again"
            )
        self.reference: ReferenceProfile | None = read_reference(content, bits=self.contract.bits, name=str(path))
        self.dim: int = self._session.get_outputs()[2].shape[1]
        self.device = "cpu" if self._session.get_providers()[0] == CPU else "cuda"
        self._turn: AbstractContextManager[object] = nullcontext() if self.device == "cpu" else threading.Lock()
        self._guards = [threading.Lock() for _ in range(_GUARDS)]
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encoder")

    @property
    def identity(self) -> str:
        """The digest of what decides a code (`nsh.core.identity`): codes are comparable only if these are equal."""
        return self.contract.identity

    def run(self, batch: NDArray[np.uint8]) -> Outputs:
        """Run the graph on prepared images, uint8 [n, S, S, 3], n >= 0.

        Raises:
            CodesError: the array has another type or shape.
        """
        size = self.contract.image_size
        if batch.dtype != np.uint8 or batch.shape[1:] != (size, size, 3):
            shape = f"uint8 [n, {size}, {size}, 3]"
            raise CodesError(f"found a batch {batch.dtype} {list(batch.shape)}, the encoder takes {shape}")
        if not len(batch):
            return self._nothing()
        if self.device != "cpu" or min(self.threads, len(batch)) == 1:
            return self._infer(batch)
        parts = np.array_split(batch, min(self.threads, len(batch)))
        outputs = map_ordered(self._pool, self._infer, parts, ahead=len(parts))
        return Outputs(*(np.concatenate(arrays) for arrays in zip(*outputs, strict=True)))

    def encode(self, images: Iterable[ImageSource], *, batch: int = BATCH) -> NDArray[np.uint8]:
        """Encode all images: uint8 [n, ceil(bits / 8)] in their order.

        Args:
            images: paths, bytes of files, Pillow images and arrays, in any mixture.
            batch: images that run through the graph at a time, >= 1; at most `threads + 1` batches are in memory.

        Raises:
            UnreadableImage: names the first image that cannot be decoded; `encode_each` continues instead.
            CodesError: `images` is a single image.
            ConfigError: `batch` is less than 1.
        """
        codes = [outputs.code for outputs in self._run_readable(images, batch=batch)]
        return np.stack(codes) if codes else self._nothing().code

    def logits(self, images: Iterable[ImageSource], *, batch: int = BATCH) -> NDArray[np.float32]:
        """Logits of all images: float32 [n, bits] in their order, for a re-ranked search.

        A bit of an image's code is 1 where its logit is > 0. Arguments and errors as in `encode`.
        """
        logits = [outputs.logit for outputs in self._run_readable(images, batch=batch)]
        return np.stack(logits) if logits else self._nothing().logit

    def _run_readable(self, images: Iterable[ImageSource], *, batch: int) -> Iterator[Outputs]:
        for row, result in enumerate(self.run_each(images, batch=batch)):
            if isinstance(result, UnreadableImage):
                raise UnreadableImage(f"image {row}: {result}") from result
            yield result

    def encode_each(
        self, images: Iterable[ImageSource], *, batch: int = BATCH
    ) -> Iterator[NDArray[np.uint8] | UnreadableImage]:
        """Encode images one after the other: yield each one's code, uint8 [ceil(bits / 8)], or its error.

        Arguments as in `encode`. An image that cannot be decoded does not affect the others.
        """
        for result in self.run_each(images, batch=batch):
            yield _code_of(result)

    def run_each(self, images: Iterable[ImageSource], *, batch: int = BATCH) -> Iterator[Outputs | UnreadableImage]:
        """As `encode_each`, with all outputs of each image: its code, its logits and its embedding."""
        if isinstance(images, str | bytes | Path | Image.Image) or (isinstance(images, np.ndarray) and images.ndim < 4):
            raise CodesError("found one image where several are expected: put it in a list")
        if batch < 1:
            raise ConfigError(f"found batch = {batch}: at least 1 image is needed")
        if isinstance(images, Sized):  # divide few images evenly among the threads
            batch = max(1, min(batch, -(-len(images) // self.threads)))
        for results in map_ordered(self._pool, self.run_batch, _cut(images, batch), ahead=self.threads + 1):
            yield from results

    def encode_batch(self, sources: Iterable[ImageSource]) -> list[NDArray[np.uint8] | UnreadableImage]:
        """Encode one batch in the calling thread: each image's code or error, as `encode_each` does."""
        return list(map(_code_of, self.run_batch(sources)))

    def run_batch(self, sources: Iterable[ImageSource]) -> list[Outputs | UnreadableImage]:
        """As `encode_batch`, with all outputs of each image."""
        prepared = [self._prepare(source) for source in sources]
        readable = [image for image in prepared if not isinstance(image, UnreadableImage)]
        outputs = iter(self._infer(np.stack(readable)).each() if readable else ())
        return [image if isinstance(image, UnreadableImage) else next(outputs) for image in prepared]

    def _infer(self, batch: NDArray[np.uint8]) -> Outputs:
        with self._turn:
            return Outputs(*self._session.run(OUTPUTS, {"image": batch}))

    def _prepare(self, source: ImageSource) -> NDArray[np.uint8] | UnreadableImage:
        # Pillow decodes an opened image at its first use, and a list may hold the same image twice.
        guard = self._guards[id(source) // 16 % _GUARDS] if isinstance(source, Image.Image) else nullcontext()
        size, resample = self.contract.image_size, self.contract.resample
        try:
            with guard:
                return load_input(source, size=size, resample=resample, max_pixels=self.max_pixels)
        except UnreadableImage as error:
            return error

    def _nothing(self) -> Outputs:
        bits = self.contract.bits
        code = np.empty((0, code_bytes(bits)), np.uint8)
        return Outputs(code, np.empty((0, bits), np.float32), np.empty((0, self.dim), np.float32))


def _code_of(result: Outputs | UnreadableImage) -> NDArray[np.uint8] | UnreadableImage:
    return result if isinstance(result, UnreadableImage) else result.code


def _open(path: Path, device: str, *, allow_cpu: bool) -> ort.InferenceSession:
    """A session with one thread; the encoder's own threads call it in parallel."""
    try:
        return open_session(path, threads=1, device=device)
    except ConfigError:
        if not allow_cpu or device.partition(":")[0] not in ("cuda", "auto"):
            raise
        return open_session(path, threads=1, device="cpu")


def _cut(images: Iterable[ImageSource], length: int) -> Iterator[list[ImageSource]]:
    remaining = iter(images)
    while batch := list(islice(remaining, length)):
        yield batch
