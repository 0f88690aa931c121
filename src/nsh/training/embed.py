"""Writes the embeddings of a split: of each image, and of augmented views of the training images.

Partial results are kept in a cache, so that an interrupted run continues. Knows neither the split nor the network.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nsh.project.embeddings import Embeddings
from nsh.system.files import sha256_json, write_json
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress
from nsh.training.views import Embedder, copy_rows, embed_images, embed_views

Parts = Mapping[str, Sequence[str]]
"""The ids of "train", "query" and "gallery"; an image may be in several."""


def embed_split(
    parts: Parts,
    embedder: Embedder,
    *,
    header: Mapping[str, Any],
    graph: bytes,
    code: str,
    cache: Path,
    into: Path,
    progress: Progress = no_progress,
) -> None:
    """Embed every image once, and the views of the training images, and write the folder `into` atomically.

    Args:
        parts: the images.
        embedder: reads and embeds images.
        header: what the embeddings depend on (see `nsh.project.embeddings`); "views" and "seed" are those of the views.
        graph: the network as an ONNX file.
        code: digest of the code; partial results with another header, batch or code are ignored.
        cache: the folder for partial results.
        into: the folder to make or replace (see `nsh.project.embeddings`).
        progress: shows the batches.

    Raises:
        DataError: an image cannot be read, or an embedding is not finite.
    """
    work = cache / sha256_json([header, embedder.batch, code])[:16]
    _embed(parts, embedder, work, views=header["views"], seed=header["seed"], progress=progress)
    _write(parts, work, into, header=header, graph=graph)
    shutil.rmtree(work)


def _distinct(parts: Parts) -> list[str]:
    return list(dict.fromkeys(name for part in parts.values() for name in part))


def _embed(parts: Parts, embedder: Embedder, work: Path, *, views: int, seed: int, progress: Progress) -> None:
    ids, train = _distinct(parts), parts["train"]
    start = time.monotonic()
    embed_images(ids, embedder=embedder, path=work / "images.npy", progress=progress)
    middle = time.monotonic()
    embed_views(train, embedder=embedder, views=views, seed=seed, path=work / "views.npy", progress=progress)
    _print_rate("images", len(ids), middle - start)
    _print_rate("views", len(train) * views, time.monotonic() - middle)


def _print_rate(what: str, count: int, seconds: float) -> None:
    print(f"embed: {count} {what} in {seconds:.1f} s, {count / seconds:.0f} a second")


def _write(parts: Parts, work: Path, into: Path, *, header: Mapping[str, Any], graph: bytes) -> None:
    rows = {name: row for row, name in enumerate(_distinct(parts))}
    with atomic_folder(into) as folder:
        made = Embeddings(folder)
        for part, ids in parts.items():
            copy_rows(work / "images.npy", np.array([rows[name] for name in ids]), path=made.path(part))
        made.graph.write_bytes(graph)
        write_json(made.header_path, header)
        shutil.move(work / "views.npy", made.views)
