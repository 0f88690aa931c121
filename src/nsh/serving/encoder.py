"""The production encoder: one ONNX file turns images into packed codes, with onnxruntime, numpy and Pillow alone.

All it needs to know it reads from the file's own contract. It does not know where codes are kept or searched.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.core.codes import code_bytes
from nsh.core.contract import METADATA_KEY, EncoderContract
from nsh.core.errors import CodesError, UnreadableImage
from nsh.core.files import sha256_file
from nsh.core.preprocess import ImageSource, load_image, to_input
from nsh.serving.session import open_session

OUTPUTS = ["code", "logit", "embedding"]


class Outputs(NamedTuple):
    """What the graph gives for n images."""

    code: NDArray[np.uint8]  # [n, ceil(bits / 8)], packed
    logit: NDArray[np.float32]  # [n, bits]
    embedding: NDArray[np.float32]  # [n, d]


class Encoder:
    """An encoder file, opened.

    Attributes:
        contract: what the file says about itself.
        sha256: of the file; codes of two encoders are comparable only if these are equal.
    """

    def __init__(self, path: Path | str, *, threads: int = 1, device: str = "cpu") -> None:
        """Open the encoder at `path`; see `nsh.serving.session.open_session` for `threads` and `device`.

        Raises:
            CodesError: there is no such file, or it is no encoder made by `nsh` for this version.
            ConfigError: `threads` or `device` is not to be had.
        """
        path = Path(path)
        self._session = open_session(path, threads=threads, device=device)
        metadata = self._session.get_modelmeta().custom_metadata_map
        outputs = [output.name for output in self._session.get_outputs()]
        if METADATA_KEY not in metadata or outputs != OUTPUTS:
            raise CodesError(f"{path} is an ONNX model but no encoder of this project: name an encoder.onnx")
        self.contract = EncoderContract.from_json(metadata[METADATA_KEY])
        self.dim: int = self._session.get_outputs()[2].shape[1]
        self.sha256 = sha256_file(path)

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
        return Outputs(*self._session.run(OUTPUTS, {"image": batch}))

    def encode(self, images: Iterable[ImageSource], *, batch: int = 64) -> NDArray[np.uint8]:
        """Encode images, all of them or none: uint8 [n, ceil(bits / 8)] in their order.

        Args:
            images: paths, bytes of files, Pillow images and arrays, mixed as you like.
            batch: images that go through the graph at a time, >= 1; it bounds memory.

        Raises:
            UnreadableImage: names the first image that cannot be decoded; `encode_each` goes on instead.
        """
        codes = []
        for row, result in enumerate(self.encode_each(images, batch=batch)):
            if isinstance(result, UnreadableImage):
                raise UnreadableImage(f"image {row}: {result}") from result
            codes.append(result)
        return np.stack(codes) if codes else self._nothing().code

    def encode_each(
        self, images: Iterable[ImageSource], *, batch: int = 64
    ) -> Iterator[NDArray[np.uint8] | UnreadableImage]:
        """Encode images one after the other as they come: for each its code, uint8 [ceil(bits / 8)], or its error.

        Arguments as in `encode`. An image that cannot be decoded costs no other image its code.
        """
        if isinstance(images, str | bytes | Path | Image.Image) or (isinstance(images, np.ndarray) and images.ndim < 4):
            raise CodesError("found one image where several are expected: put it in a list")
        remaining = iter(images)
        while sources := list(islice(remaining, batch)):
            yield from self._encode_batch(sources)

    def _encode_batch(self, sources: list[ImageSource]) -> Iterator[NDArray[np.uint8] | UnreadableImage]:
        prepared = [self._prepare(source) for source in sources]
        readable = [image for image in prepared if not isinstance(image, UnreadableImage)]
        codes = iter(self.run(np.stack(readable)).code if readable else ())
        for image in prepared:
            yield image if isinstance(image, UnreadableImage) else next(codes)

    def _prepare(self, source: ImageSource) -> NDArray[np.uint8] | UnreadableImage:
        try:
            image = load_image(source)
        except UnreadableImage as error:
            return error
        return to_input(image, size=self.contract.image_size, resample=self.contract.resample)

    def _nothing(self) -> Outputs:
        bits = self.contract.bits
        code = np.empty((0, code_bytes(bits)), np.uint8)
        return Outputs(code, np.empty((0, bits), np.float32), np.empty((0, self.dim), np.float32))
