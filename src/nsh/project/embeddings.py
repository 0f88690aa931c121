"""The folder data/embed: the frozen backbone's embeddings of a split. Knows no network and no image.

embed.json                           the header: everything the embeddings depend on
backbone.onnx                        the graph that made them on the CPU
train.npy, query.npy, gallery.npy    float32 [n, d], in the order of the split
views.npy                            float16 [n_train, V, d], augmented views of the training images
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.contract import EncoderContract
from nsh.core.metrics import cosine_map
from nsh.errors import DataError
from nsh.system.files import read_json, sha256_file
from nsh.system.progress import Progress, no_progress

Labels = Mapping[str, NDArray[np.bool_] | None]


@dataclass(frozen=True)
class Embeddings:
    """The folder, its files and their content."""

    folder: Path

    @property
    def header_path(self) -> Path:
        """The file of the header."""
        return self.folder / "embed.json"

    @property
    def graph(self) -> Path:
        """The backbone as an ONNX file."""
        return self.folder / "backbone.onnx"

    @property
    def views(self) -> Path:
        """The embeddings of the training images' views."""
        return self.folder / "views.npy"

    def path(self, part: str) -> Path:
        """The file with the embeddings of "train", "query" or "gallery"."""
        return self.folder / f"{part}.npy"

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header.

        Raises:
            DataError: there is none.
        """
        try:
            header: dict[str, Any] = read_json(self.header_path)
        except FileNotFoundError as error:
            raise _missing(error) from error
        return header

    def read(self, part: str) -> NDArray[np.float32]:
        """The embeddings of a part, float32 [n, d], mapped from the file.

        Raises:
            DataError: they are missing.
        """
        return _load(self.path(part), in_memory=False)

    def read_training(self) -> tuple[NDArray[np.float32], NDArray[np.float16]]:
        """Features float32 [n, d] of the training images, in memory, and their views float16 [n, V, d], mapped.

        Raises:
            DataError: they are missing.
        """
        return _load(self.path("train"), in_memory=True), _load(self.views, in_memory=False)

    def differences(self, **wanted: object) -> list[str]:
        """Names of the header's entries that differ from `wanted`."""
        return [name for name, value in wanted.items() if self.header.get(name) != value]

    def require(self, **wanted: object) -> None:
        """Make sure that the header has the `wanted` entries, for example the present images and weights.

        Raises:
            DataError: an entry differs.
        """
        wrong = self.differences(**wanted)
        if wrong:
            raise DataError(
                f"{self.folder} was made with another {' and '.join(wrong)} than is here now: run `dvc repro embed` "
                "first"
            )

    def has_graph(self, sha256: str) -> bool:
        """Whether the backbone's graph has this digest."""
        return sha256_file(self.graph) == sha256

    def are_of(self, contract: EncoderContract, *, split_sha256: str) -> bool:
        """Whether an encoder's own backbone made them, on this split and on the CPU."""
        differences = self.differences(
            backbone_sha256=contract.backbone_sha256,
            split_sha256=split_sha256,
            image_size=contract.image_size,
            resample=contract.resample,
            preprocessing=contract.preprocessing,
            device="cpu",
        )
        return not differences and self.has_graph(contract.backbone_sha256)


def measure_ceiling(
    embeddings: Embeddings, labels: Labels, *, k: int, progress: Progress = no_progress
) -> dict[str, float]:
    """The figures of `nsh.core.metrics.cosine_map`, rounded so that they do not depend on threads.

    Args:
        embeddings: of the split.
        labels: of "query" and "gallery", bool [n, classes] each, or None without labels.
        k: ranks considered.
        progress: shows the blocks of queries.

    Returns:
        The figures by name; empty without labels.

    Raises:
        DataError: there are no embeddings, or labels do not fit them.
    """
    query, gallery = labels["query"], labels["gallery"]
    if query is None or gallery is None:
        return {}
    figures = cosine_map(embeddings.read("query"), embeddings.read("gallery"), query, gallery, k=k, progress=progress)
    return {name: round(value, 6) for name, value in figures.items()}


def _load(path: Path, *, in_memory: bool) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode=None if in_memory else "r")
    except FileNotFoundError as error:
        raise _missing(error) from error
    return array


def _missing(error: FileNotFoundError) -> DataError:
    return DataError(f"{error.filename} is not here: run `dvc repro embed` first")
