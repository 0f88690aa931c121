"""Writes embeddings of clean images and of augmented views, and continues after an interruption.

A file grows batch by batch in the order of the images, so its length shows the progress. Batches depend on `batch`
alone and every view has its own generator, so the bytes do not depend on the number of workers. `embed` is a callable
that runs the network.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nsh.core.reading import Load, read_image, read_inputs
from nsh.errors import DataError
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads
from nsh.training.augment import augment, view_generator

Embed = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""Images uint8 [n, S, S, 3] to embeddings float32 [n, d]; called by several threads at once."""

_AHEAD = 2  # batches in progress for each worker
_COPIED = 4096  # rows copied at once


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """How images are read and embedded.

    Attributes:
        load: from an id to its image.
        embed: from a batch of images to embeddings.
        dim: length d of an embedding.
        size: S, pixels a side.
        resample: name of Pillow's filter.
        batch: images or views in one call of `embed`; at least all views of one image.
        workers: threads that decode, augment and call `embed`.
    """

    load: Load
    embed: Embed
    dim: int
    size: int
    resample: str
    batch: int
    workers: int


def embed_images(ids: Sequence[str], *, embedder: Embedder, path: Path, progress: Progress = no_progress) -> None:
    """Write the embeddings of the images `ids` to the .npy file `path`, float32 [len(ids), d].

    The file of an interrupted call with the same arguments is continued; a complete file is not changed.

    Raises:
        DataError: an image cannot be read, or an embedding is NaN or infinite.
    """

    def make(start: int) -> NDArray[np.float32]:
        batch = ids[start : start + embedder.batch]
        return _embed(
            embedder, read_inputs(embedder.load, batch, size=embedder.size, resample=embedder.resample), batch
        )

    _grow(
        path,
        (len(ids), embedder.dim),
        np.float32,
        step=embedder.batch,
        make=make,
        workers=embedder.workers,
        progress=progress,
    )


def embed_views(
    ids: Sequence[str], *, embedder: Embedder, views: int, seed: int, path: Path, progress: Progress = no_progress
) -> None:
    """Write the embeddings of `views` augmented views of each image to the .npy file `path`.

    The array is float16 [len(ids), views, d]; view v of image i is drawn by `view_generator(seed, image=i, view=v)`.
    An interrupted call is continued as in `embed_images`.

    Raises:
        DataError: an image cannot be read, or an embedding is NaN or beyond float16's 65,504.
    """
    step = max(1, embedder.batch // views)

    def make(start: int) -> NDArray[np.float16]:
        batch = ids[start : start + step]
        inputs = [
            pixels for row, name in enumerate(batch, start) for pixels in _draw_views(embedder, name, row, views, seed)
        ]
        names = [name for name in batch for _ in range(views)]
        return _halve(_embed(embedder, np.stack(inputs), names), names).reshape(len(batch), views, embedder.dim)

    shape = (len(ids), views, embedder.dim)
    _grow(path, shape, np.float16, step=step, make=make, workers=embedder.workers, progress=progress)


def copy_rows(source: Path, rows: NDArray[np.int64], *, path: Path) -> None:
    """Write the rows `rows` of the array [n, d] in the .npy file `source` to the .npy file `path`."""
    array = np.load(source, mmap_mode="r")

    def make(start: int) -> NDArray[Any]:
        chosen: NDArray[Any] = array[rows[start : start + _COPIED]]
        return chosen

    shape = (len(rows), array.shape[1])
    _grow(path, shape, array.dtype.type, step=_COPIED, make=make, workers=1, progress=no_progress)


def _draw_views(embedder: Embedder, name: str, row: int, views: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    image = read_image(embedder.load, name)
    for view in range(views):
        yield augment(image, view_generator(seed, image=row, view=view), size=embedder.size, resample=embedder.resample)


def _embed(embedder: Embedder, inputs: NDArray[np.uint8], names: Sequence[str]) -> NDArray[np.float32]:
    embeddings = embedder.embed(inputs)
    if embeddings.shape != (len(names), embedder.dim):
        raise DataError(
            f"found embeddings {list(embeddings.shape)}, the backbone promised [{len(names)}, {embedder.dim}]"
        )
    _check_finite(embeddings, names, "NaN or infinite: check the backbone's weights")
    return embeddings


def _halve(embeddings: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):  # the check below names the image
        halves = embeddings.astype(np.float16)
    _check_finite(halves, names, f"beyond float16's {np.finfo(np.float16).max:.0f}: choose another backbone or weights")
    return halves


def _check_finite(embeddings: NDArray[Any], names: Sequence[str], fault: str) -> None:
    broken = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(broken):
        raise DataError(f"the embedding of image {names[broken[0]]!r} is {fault}")


def _grow(
    path: Path,
    shape: tuple[int, ...],
    dtype: type[np.generic],
    *,
    step: int,
    make: Callable[[int], NDArray[Any]],
    workers: int,
    progress: Progress,
) -> None:
    """Append `make(start)`, the rows start to start + step, until the .npy file at `path` is complete."""
    header = _header(shape, dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+b") as file:
        rows = _resume(
            file, header, row_bytes=int(np.prod(shape[1:])) * np.dtype(dtype).itemsize, step=step, rows=shape[0]
        )
        starts = range(rows, shape[0], step)
        batches = map_in_threads(make, starts, threads=workers, ahead=_AHEAD * workers)
        for batch in progress(batches, desc=path.stem, total=len(starts)):
            file.write(np.ascontiguousarray(batch, dtype=dtype).data)
            file.flush()


def _header(shape: tuple[int, ...], dtype: type[np.generic]) -> bytes:
    """The .npy header, written without NumPy's memory map or `save`, which do not report a full disk."""
    buffer = io.BytesIO()
    description = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def _resume(file: BinaryIO, header: bytes, *, row_bytes: int, step: int, rows: int) -> int:
    """Move `file` to the end of its last complete batch, or begin it again; return the rows before this place."""
    done = 0
    if file.read(len(header)) == header:
        done = (file.seek(0, io.SEEK_END) - len(header)) // row_bytes
        done = rows if done >= rows else done - done % step
    else:
        file.seek(0)
        file.write(header)
    file.truncate(len(header) + done * row_bytes)
    file.seek(0, io.SEEK_END)
    return done
