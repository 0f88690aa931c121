"""Training images held out to judge parameters by. Reads neither queries nor gallery of the split.

Held-out images are the queries of the search; the other training images are learned from, and are the gallery. One half
of the held-out images chooses between trials. The other half checks the winner: the best of many trials looks better
than it is on the images that chose it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.core.codes import binarize, pack
from nsh.core.metrics import evaluate
from nsh.core.metrics.directions import find_directions
from nsh.core.metrics.estimate import estimate_map, find_related
from nsh.data.split import read_header, read_part
from nsh.errors import DataError
from nsh.methods import HashHead, TrainingData
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project

SHARE, MOST = 0.2, 1000  # of the training images that are held out
BATCH = 4096  # embeddings hashed at once


class Rows(NamedTuple):
    """Rows of training images, int64 [n] each and ascending; no two parts share an image, or the content of one."""

    learn: NDArray[np.int64]
    choose: NDArray[np.int64]
    check: NDArray[np.int64]


@dataclass(frozen=True)
class Queries:
    """One half of the held-out images.

    Attributes:
        features: float32 [q, d].
        labels: bool [q, classes], or None without labels.
        related: of `nsh.core.metrics.estimate.find_related`, or None with labels.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.bool_] | None
    related: NDArray[np.uint8] | None


@dataclass(frozen=True)
class HeldOut:
    """What trials learn from, and what they are judged by.

    Attributes:
        data: the images that are learned from and searched.
        labels: of these, bool [n, classes]; None without labels.
        k: ranks considered.
        choose: the queries that choose between trials.
        check: the queries that check the winner.
    """

    data: TrainingData
    labels: NDArray[np.bool_] | None
    k: int
    choose: Queries
    check: Queries

    @property
    def figure(self) -> str:
        """The name of the score: mAP with labels, its estimate without."""
        return f"{'estimated_' if self.labels is None else ''}mAP_at_{self.k}"

    def score(self, head: HashHead, queries: Queries) -> float:
        """The figure of a head's codes, in [0, 1]; the head may be in training, on any device."""
        codes = _encode(head, queries.features), _encode(head, self.data.features)
        if queries.related is not None:
            return estimate_map(codes, queries.related, k=self.k).value
        return evaluate(*codes, queries.labels, self.labels, bits=head.bits, k=self.k).metrics[self.figure]


def hold_out(sha256: Sequence[str], *, seed: int) -> Rows:
    """Draw the held-out images, by their contents, so that no content is in two parts.

    Args:
        sha256: the digest of each training image.
        seed: of the draw.

    Raises:
        DataError: too few contents.
    """
    contents, of_row = np.unique(np.asarray(sha256), return_inverse=True)
    count = min(MOST, round(SHARE * len(contents)))
    if count < 2:
        raise DataError(
            f"found {len(contents)} different training images, a search needs 10 or more, better a thousand: raise "
            "split.train"
        )
    place = np.random.default_rng(seed).permutation(len(contents))[of_row]
    half = count // 2
    chooses, checks = place < half, (half <= place) & (place < count)
    return Rows(*(np.flatnonzero(part) for part in (place >= count, chooses, checks)))


def open_held_out(project: Project, *, k: int, seed: int) -> HeldOut:
    """Hold out some of a project's training images.

    Args:
        project: the train part of its split and of its embeddings is read.
        k: ranks considered on the split's gallery; here it is the same share of a smaller gallery.
        seed: of the draw.

    Raises:
        DataError: split or embeddings are missing, do not belong together, or are too small.
    """
    split, part, embeddings = read_header(project.split), read_part(project.split, "train"), Embeddings(project.embed)
    embeddings.require(split_sha256=split["sha256"])
    rows, everything = hold_out(part.sha256, seed=seed), TrainingData(*embeddings.read_training())
    data, held = everything.take(rows.learn), np.concatenate([rows.choose, rows.check])
    features = everything.features[held]
    related = _relate(features, data) if part.labels is None else None

    def open_half(half: slice) -> Queries:
        labels = None if part.labels is None else part.labels[held[half]]
        return Queries(features[half], labels, None if related is None else related[half])

    return HeldOut(
        data=data,
        labels=None if part.labels is None else part.labels[rows.learn],
        k=max(1, round(k * len(rows.learn) / split["counts"]["gallery"])),
        choose=open_half(slice(len(rows.choose))),
        check=open_half(slice(len(rows.choose), None)),
    )


def _relate(features: NDArray[np.float32], data: TrainingData) -> NDArray[np.uint8]:
    directions = find_directions(data.features, data.views)
    return find_related(directions.project(features), directions.project(data.features))


@torch.no_grad()
def _encode(head: HashHead, features: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Packed codes of embeddings; a head in training stays so, and its normalisation does not learn from them."""
    training, device = head.training, next(iter(head.state_dict().values())).device
    head.eval()
    rows = torch.from_numpy(features)
    logits = [head(rows[start : start + BATCH].to(device)).cpu() for start in range(0, len(rows), BATCH)]
    head.train(training)
    return pack(binarize(torch.cat(logits).numpy()))
