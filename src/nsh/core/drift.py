"""Whether recent images differ from those that an encoder was made for, from their codes alone.

Two tests of one hypothesis: recent codes are drawn as the held-out ones of the encoder's reference profile were.

- *Bits.* S is the sum over bits of z^2, the squared standardised difference of the two rates. Bits are correlated, so
  S is no chi-square: it is a sum of chi-squares weighted by the eigenvalues of the bits' correlation matrix. Three of
  its moments are those of a scaled and shifted chi-square (Hall 1983; Buckley and Eagleson 1988).
- *Distances.* The standardised difference of the mean distances to the nearest anchor, which is normal. Only greater
  distances count: they are of images unlike the known ones, whereas an anchor's own image, in a small gallery a
  frequent query, is at distance 0.

Each has its false alarms at half of the rate (Bonferroni), so the two together have no more than the rate, for any
number of images. Knows no image, service or file.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.reference import MIN_IMAGES, ReferenceProfile, Tally
from nsh.errors import DataError

FALSE_ALARMS = 0.001
"""The share of windows that raise an alarm although nothing has changed."""


class Drift(NamedTuple):
    """The comparison of recent codes with a reference profile.

    Attributes:
        images: recent images.
        bits: S over its expectation; 1 is expected.
        bits_p: its p-value.
        distance: the recent mean distance to the nearest anchor minus the reference's, in standard errors.
        distance_p: the p-value of a greater distance.
    """

    images: int
    bits: float
    bits_p: float
    distance: float
    distance_p: float

    @property
    def p_value(self) -> float:
        """The smallest rate of false alarms at which this is an alarm, in [0, 1]."""
        return min(1.0, 2 * min(self.bits_p, self.distance_p))

    @property
    def alarm(self) -> bool:
        """Whether chance alone would do this in fewer than `FALSE_ALARMS` of windows."""
        return self.p_value < FALSE_ALARMS


def compare(recent: Tally, reference: ReferenceProfile) -> Drift:
    """Compare recent codes, counted with the reference's anchors, with the reference.

    Raises:
        DataError: there are fewer than `MIN_IMAGES` recent images.

    Examples:
        >>> from nsh.core.reference import profile, tally
        >>> codes = np.random.default_rng(0).integers(0, 256, (600, 1), np.uint8)
        >>> reference = profile(codes[:300], codes[300:400], bits=8)
        >>> same, darker = codes[400:], codes[400:] & 0b0111_1111
        >>> [compare(tally(rows, reference.anchors, bits=8), reference).alarm for rows in (same, darker)]
        [False, True]
    """
    if recent.images < MIN_IMAGES:
        raise DataError(f"found {recent.images} recent images, at least {MIN_IMAGES} are needed: wait for more")
    score = float((standardised(recent, reference) ** 2).sum())
    distance = _distance_score(recent, reference.held_out)
    return Drift(
        images=recent.images,
        bits=score / reference.bits,
        bits_p=_weighted_tail(score, reference.bits, *reference.moments),
        distance=distance,
        distance_p=0.5 * math.erfc(distance / math.sqrt(2)),
    )


def standardised(recent: Tally, reference: ReferenceProfile) -> NDArray[np.float64]:
    """The difference of each bit's rates in standard errors, float64 [bits].

    Examples:
        >>> from nsh.core.reference import profile, tally
        >>> codes = np.random.default_rng(0).integers(0, 256, (600, 1), np.uint8)
        >>> reference = profile(codes[:300], codes[300:400], bits=8)
        >>> standardised(tally(codes[400:] | 1, reference.anchors, bits=8), reference)[7] > 5
        np.True_
    """
    held_out = reference.held_out
    # of both together, under the hypothesis; half an image more of each kind keeps a constant bit's above 0
    rates = (recent.ones + held_out.ones + 0.5) / (recent.images + held_out.images + 1)
    variance = rates * (1 - rates) * (1 / recent.images + 1 / held_out.images)
    scores: NDArray[np.float64] = (recent.rates - held_out.rates) / np.sqrt(variance)
    return scores


def _distance_score(recent: Tally, held_out: Tally) -> float:
    difference = recent.mean_distance - held_out.mean_distance
    error = math.sqrt(sum(_variance(counts) / counts.images for counts in (recent, held_out)))
    return difference / max(error, 1e-9)  # an error of 0: all distances are equal


def _variance(counts: Tally) -> float:
    """Of the distance to the nearest anchor."""
    squares = (np.arange(len(counts.nearest)) - counts.mean_distance) ** 2
    return float(counts.nearest @ squares / counts.images)


def _weighted_tail(score: float, first: float, second: float, third: float) -> float:
    """P(X > score) of X, a sum of chi-squares of one degree; the arguments are the weights' sums of powers."""
    degrees = second**3 / third**2
    equal = degrees + (score - first) / math.sqrt(2 * second) * math.sqrt(2 * degrees)
    return _chi_square_tail(max(0.0, equal), degrees)


def _chi_square_tail(value: float, degrees: float) -> float:
    """P(X > value) of a chi-square (Wilson and Hilferty 1931): its cube root is nearly normal."""
    spread = 2 / (9 * degrees)
    return 0.5 * math.erfc(((value / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(2 * spread))
