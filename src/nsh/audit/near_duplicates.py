"""Finds queries of which the gallery has nearly the same image, by codes of the frozen backbone's embeddings.

The codes are those of LSH (`nsh.methods.lsh`), which learns nothing: the share of bits that differ estimates the angle
of two embeddings at the mean of the training images. Copies with the same bytes are not found here: the split leaves
them out of the gallery. (docs/decisions/0016)
"""

from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.codes import binarize, pack
from nsh.core.hamming import query_blocks, rank
from nsh.methods.lsh import Lsh
from nsh.objectives.base import HashHead, TrainingData
from nsh.project.embeddings import Embeddings
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads

BITS = 512
RADIUS = BITS // 8
"""Bits by which near-duplicates differ at most."""

_ROWS = 4096  # embeddings coded at once


class NearDuplicate(NamedTuple):
    """A query and its nearest gallery image, by their rows in the split, and the bits by which their codes differ."""

    query: int
    gallery: int
    distance: int


def find_near_duplicates(
    embeddings: Embeddings, *, threads: int = 1, progress: Progress = no_progress
) -> list[NearDuplicate]:
    """The queries whose nearest gallery image is within `RADIUS`, with that image, ordered by (distance, query).

    Every query is compared with every gallery image.

    Args:
        embeddings: of the split.
        threads: blocks of queries compared at once; no result depends on it.
        progress: counts the blocks.

    Raises:
        DataError: there are no embeddings.
        TrainingError: an embedding of a training image is NaN or infinite.
    """
    torch.set_num_threads(1)  # a sum's last bits depend on it
    data = TrainingData(*embeddings.read_training())
    head = Lsh().fit(data, bits=BITS, seed=0, report=lambda record: None, loop=_no_loop)
    query, gallery = (_encode(head, embeddings.read(part)) for part in ("query", "gallery"))
    blocks = list(query_blocks(len(query), len(gallery)))
    compared = map_in_threads(lambda block: _compare(query, gallery, block), blocks, threads=threads)
    found = chain.from_iterable(progress(compared, desc="compare", total=len(blocks)))
    return sorted(found, key=lambda pair: (pair.distance, pair.query))


def _compare(query: NDArray[np.uint8], gallery: NDArray[np.uint8], block: slice) -> list[NearDuplicate]:
    """The near-duplicates of the queries in `block`; of gallery images at one distance the first counts."""
    found = (table[:, 0].tolist() for table in rank(query[block], gallery, k=1))
    pairs = [NearDuplicate(block.start + row, *nearest) for row, nearest in enumerate(zip(*found, strict=True))]
    return [pair for pair in pairs if pair.distance <= RADIUS]


def _encode(head: HashHead, embeddings: NDArray[np.float32]) -> NDArray[np.uint8]:
    parts = []
    with torch.no_grad():
        for start in range(0, len(embeddings), _ROWS):
            logits = head(torch.from_numpy(np.array(embeddings[start : start + _ROWS])))
            parts.append(pack(binarize(logits.numpy())))
    return np.concatenate(parts)


def _no_loop(*_: object, **__: object) -> None:
    """LSH learns nothing."""
