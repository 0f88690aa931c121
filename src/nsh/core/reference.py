"""The reference profile of an encoder: what its codes look like on images that it was not trained on.

The export writes it into the encoder file as one JSON text, beside the contract. It is provenance: no code and no
identity depends on it, and a file without it is valid. `nsh.core.drift` compares recent codes with it. Knows no image.

Distances are measured to anchors, codes of gallery images in the profile itself: those to the items of an index would
depend on how many items it has.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes, unpack
from nsh.core.hamming import query_blocks, to_words
from nsh.core.identity import find_metadata
from nsh.errors import CodesError

REFERENCE_KEY = "nsh-reference"
"""Of the text in the ONNX file's metadata."""

MIN_IMAGES = 50
"""Fewer held-out images make no reference, and fewer recent ones are not compared: their means are not normal."""

ANCHORS = 512
"""Codes in a profile, at most: 4 kB of 64 bits each, compared with a query in microseconds."""

EMPTY_RADIUS = 2
"""Bits: a ball of this radius around a code is empty if no anchor is in it."""

_SCHEMA = 1


class Tally(NamedTuple):
    """Counts over the codes of n images: for each bit the ones, and for each distance the images.

    Attributes:
        ones: int64 [bits], images whose bit is 1.
        nearest: int64 [bits + 1], images whose nearest anchor is so many bits away.
    """

    ones: NDArray[np.int64]
    nearest: NDArray[np.int64]

    @property
    def images(self) -> int:
        """Their number, n."""
        return int(self.nearest.sum())

    @property
    def rates(self) -> NDArray[np.float64]:
        """The share of ones of each bit, float64 [bits]; n must be >= 1."""
        return self.ones / self.images

    @property
    def mean_distance(self) -> float:
        """The mean distance to the nearest anchor, in bits; n must be >= 1."""
        return float(self.nearest @ np.arange(len(self.nearest)) / self.images)

    @property
    def empty_balls(self) -> float:
        """The share of images without an anchor within `EMPTY_RADIUS` bits; n must be >= 1."""
        return float(self.nearest[EMPTY_RADIUS + 1 :].sum() / self.images)


@dataclass(frozen=True, kw_only=True)
class ReferenceProfile:
    """What an encoder's codes look like.

    Attributes:
        held_out: counts over the held-out images.
        moments: sums of the squares and cubes of the eigenvalues of the bits' correlation matrix, of which `nsh.core.
            drift` computes how far counts of correlated bits vary by chance.
        anchors: codes uint8 [1 to ANCHORS, ceil(bits / 8)].
    """

    held_out: Tally
    moments: tuple[float, float]
    anchors: NDArray[np.uint8]

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return len(self.held_out.ones)

    def to_json(self) -> str:
        """One line of JSON, which `read_reference` reads."""
        return json.dumps(
            {
                "schema": _SCHEMA,
                "ones": self.held_out.ones.tolist(),
                "nearest": self.held_out.nearest.tolist(),
                "moments": self.moments,
                "anchors": [row.tobytes().hex() for row in self.anchors],
            }
        )


def nearest_anchors(codes: NDArray[np.uint8], anchors: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Bits from each code, uint8 [n, bytes], to its nearest anchor, uint8 [a, bytes], a >= 1: int64 [n].

    Examples:
        >>> nearest_anchors(np.array([[0b0111]], np.uint8), anchors=np.array([[0b0000], [0b1111]], np.uint8))
        array([1])
    """
    words, anchor_words = to_words(codes), to_words(anchors)
    nearest = np.empty(len(codes), np.int64)
    for block in query_blocks(len(codes), len(anchors)):
        differing = words[:, block, None] ^ anchor_words[:, None]
        nearest[block] = np.bitwise_count(differing).sum(axis=0, dtype=np.int64).min(axis=1)
    return nearest


def tally(codes: NDArray[np.uint8], anchors: NDArray[np.uint8], *, bits: int) -> Tally:
    """Count over packed codes, uint8 [n, ceil(bits / 8)].

    Raises:
        CodesError: these are no codes of `bits` bits.

    Examples:
        >>> counts = tally(np.array([[128], [192]], np.uint8), np.array([[0]], np.uint8), bits=2)
        >>> counts.ones.tolist(), counts.nearest.tolist()
        ([2, 1], [0, 1, 1])
    """
    ones = unpack(codes, bits=bits).sum(axis=0, dtype=np.int64)
    return Tally(ones, np.bincount(nearest_anchors(codes, anchors), minlength=bits + 1))


def profile(held_out: NDArray[np.uint8], gallery: NDArray[np.uint8], *, bits: int) -> ReferenceProfile | None:
    """The reference profile of an encoder, from packed codes.

    Args:
        held_out: uint8 [n, ceil(bits / 8)], of images neither in the gallery nor in training.
        gallery: uint8 [g, ceil(bits / 8)], in random order; the first `ANCHORS` become anchors.
        bits: of a code.

    Returns:
        None if there are fewer than `MIN_IMAGES` held-out images, or no gallery.

    Raises:
        CodesError: these are no codes of `bits` bits.

    Examples:
        >>> codes = np.random.default_rng(0).integers(0, 256, (300, 1), np.uint8)
        >>> made = profile(codes[:200], codes[200:], bits=8)
        >>> made.held_out.images, len(made.anchors)
        (200, 100)
    """
    if len(held_out) < MIN_IMAGES or not len(gallery):
        return None
    anchors = gallery[:ANCHORS]
    counts = tally(held_out, anchors, bits=bits)
    return ReferenceProfile(held_out=counts, moments=_moments(unpack(held_out, bits=bits)), anchors=anchors)


def _moments(bits: NDArray[np.bool_]) -> tuple[float, float]:
    """Traces of the second and third power of the correlation matrix; a constant bit correlates with none."""
    centred = bits - bits.mean(axis=0)
    deviations = np.sqrt((centred**2).mean(axis=0))
    scaled = np.divide(centred, deviations, out=np.zeros_like(centred), where=deviations > 0)
    correlation = scaled.T @ scaled / len(bits)
    np.fill_diagonal(correlation, 1.0)
    squared = correlation @ correlation
    return round(float(np.trace(squared)), 3), round(float((squared * correlation).sum()), 3)


def read_reference(model: bytes, *, bits: int, name: str) -> ReferenceProfile | None:
    """The reference profile in an encoder file; None if it has none.

    Args:
        model: the bytes of the file.
        bits: of the encoder's codes.
        name: the file's name in messages.

    Raises:
        CodesError: the profile is damaged, or of a newer version.

    Examples:
        >>> read_reference(bytes([58, 2, 18, 0]), bits=8, name="encoder.onnx") is None
        True
    """
    texts = find_metadata(model, REFERENCE_KEY)
    if not texts:
        return None
    try:
        return _parse(json.loads(texts[0]), bits=bits)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, CodesError) as error:
        raise CodesError(f"the reference profile of {name} is not readable ({error!r}): export it again") from error


def _parse(values: Any, *, bits: int) -> ReferenceProfile:
    if values["schema"] != _SCHEMA:
        raise ValueError(f"schema {values['schema']}, this version reads {_SCHEMA}")
    counts = Tally(np.array(values["ones"], np.int64), np.array(values["nearest"], np.int64))
    anchors = np.array([list(bytes.fromhex(row)) for row in values["anchors"]], np.uint8)
    check_codes(anchors, bits=bits)
    square, cube = map(float, values["moments"])
    fits = counts.ones.shape == (bits,) and counts.nearest.shape == (bits + 1,) and len(anchors)
    if not fits or min(counts.nearest) < 0 or min(counts.ones) < 0 or max(counts.ones) > counts.images:
        raise ValueError("its counts do not fit together")
    if counts.images < MIN_IMAGES or min(square, cube) <= 0:
        raise ValueError("it is of too few images")
    return ReferenceProfile(held_out=counts, moments=(square, cube), anchors=anchors)
