"""Drift from the bits beside MMD on float embeddings: power and time, on CIFAR-10's test images.

    python benchmarks/drift.py --root CIFAR-10 --model models/nsh-64/encoder.onnx

CIFAR-10 is a folder with test/<class>/*.jpg and train/<class>/*.jpg; without it nothing is measured. Every draw takes
another 1,000 clean test images as the reference and 200 recent ones: clean, corrupted, or without two classes. The
script prints the share of draws that each test calls drift at 5 % false alarms. The threshold of the bits comes from
their p-value; MMD's is the 95 % quantile of its clean draws, which needs no permutations and favours it. Times are
processor time for one window.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from nsh.core.drift import compare
from nsh.core.reference import ANCHORS, profile, tally
from nsh.serving.encoder import Encoder

CLEAN, REFERENCE, WINDOW, SHIFTED = 1500, 1000, 200, 400  # images
LEVEL, PERMUTATIONS = 0.05, 100
Corrupt = Callable[[Image.Image], Image.Image]


class Pool(NamedTuple):
    """Images as both tests see them."""

    codes: NDArray[np.uint8]  # [n, bytes]
    embeddings: NDArray[np.float32]  # [n, d]
    classes: NDArray[np.str_]  # [n]


def main() -> None:
    """Encode the pools, print the power for each shift, then the times."""
    parser = argparse.ArgumentParser(description="Measure the power and the time of drift detection.")
    parser.add_argument("--root", type=Path, default=Path("data/local"), help="CIFAR-10")
    parser.add_argument("--model", type=Path, default=Path("models/nsh-64/encoder.onnx"), help="an encoder.onnx")
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    if not any(arguments.root.glob("test/*/*.jpg")):
        print(f"nothing measured: {arguments.root} has no test/<class>/*.jpg; name CIFAR-10's folder with --root")
        return
    encoder, random = Encoder(arguments.model), np.random.default_rng(0)
    test = random.permutation(sorted(arguments.root.glob("test/*/*.jpg"))).tolist()
    train = random.permutation(sorted(arguments.root.glob("train/*/*.jpg"))).tolist()
    gallery, clean = encode(encoder, train[:ANCHORS]), encode(encoder, test[:CLEAN])
    shown = test[CLEAN : CLEAN + SHIFTED]
    comparison = Comparison(clean, gallery.codes, bits=encoder.contract.bits, draws=arguments.draws)
    print(f"{arguments.draws} draws of {WINDOW} images, level {LEVEL}\n{'shift':<24}{'bits':>8}{'MMD':>8}")
    comparison.show("none: false alarms", None)
    comparison.show("two classes removed", None, classes=np.unique(clean.classes)[2:])
    for name, corrupt in SHIFTS.items():
        comparison.show(name, encode(encoder, shown, corrupt))
    comparison.show_times()


def encode(encoder: Encoder, paths: list[Path], corrupt: Corrupt = lambda image: image) -> Pool:
    """Codes and embeddings of images."""
    outputs = list(encoder.run_each(corrupt(Image.open(path).convert("RGB")) for path in paths))
    classes = np.array([path.parent.name for path in paths])
    return Pool(np.stack([one.code for one in outputs]), np.stack([one.embedding for one in outputs]), classes)


class Comparison:
    """Draws references and windows, and applies both tests to the same images."""

    def __init__(self, clean: Pool, gallery: NDArray[np.uint8], *, bits: int, draws: int) -> None:
        self._clean, self._gallery, self._bits = clean, gallery, bits
        random = np.random.default_rng(1)
        self._orders = [random.permutation(len(clean.codes)) for _ in range(draws)]
        self._references = [profile(clean.codes[o[:REFERENCE]], gallery, bits=bits) for o in self._orders]
        self._width = float(np.median(squared_distances(clean.embeddings[:400], clean.embeddings[400:800])))
        kernel = self._kernel(clean.embeddings, clean.embeddings)
        self._among = [inner_mean(kernel, order[:REFERENCE]) for order in self._orders]
        self._threshold = float(np.quantile(self._score(None, None)[1], 1 - LEVEL))

    def show(self, name: str, shifted: Pool | None, classes: Iterable[str] | None = None) -> None:
        """The share of draws that each test calls drift."""
        p_values, scores = self._score(shifted, classes)
        print(f"{name:<24}{np.mean(p_values < LEVEL):>8.3f}{np.mean(scores > self._threshold):>8.3f}", flush=True)

    def _score(
        self, shifted: Pool | None, classes: Iterable[str] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P-values by bits and statistics of MMD, one a draw; without `shifted`, windows are clean."""
        pool, random = shifted or self._clean, np.random.default_rng(2)
        across, inside = (self._kernel(other.embeddings, pool.embeddings) for other in (self._clean, pool))
        p_values, scores = [], []
        for order, reference, among in zip(self._orders, self._references, self._among, strict=True):
            free = order[REFERENCE:] if shifted is None else random.permutation(len(pool.codes))
            if classes is not None:
                free = free[np.isin(pool.classes[free], list(classes))]
            rows = free[:WINDOW]
            assert reference is not None
            assert len(rows) == WINDOW
            p_values.append(compare(tally(pool.codes[rows], reference.anchors, bits=self._bits), reference).p_value)
            between = across[np.ix_(order[:REFERENCE], rows)].mean()
            scores.append(among + inner_mean(inside, rows) - 2 * between)
        return np.array(p_values), np.array(scores)

    def _kernel(self, rows: NDArray[np.float32], columns: NDArray[np.float32]) -> NDArray[np.float32]:
        """Gaussian, as wide as the median distance."""
        kernel: NDArray[np.float32] = np.exp(-squared_distances(rows, columns) / self._width)
        return kernel

    def show_times(self) -> None:
        """Milliseconds a window: the bits; MMD with a known threshold; MMD with permutations, as it is mostly used."""
        order, reference = self._orders[0], self._references[0]
        assert reference is not None
        then, now = (self._clean.embeddings[rows] for rows in np.split(order[: REFERENCE + WINDOW], [REFERENCE]))
        codes = self._clean.codes[order[REFERENCE : REFERENCE + WINDOW]]

        def by_bits() -> None:
            compare(tally(codes, reference.anchors, bits=self._bits), reference)

        def by_threshold() -> None:
            self._kernel(then, now).mean()
            inner_mean(self._kernel(now, now), np.arange(WINDOW))

        def by_permutations() -> None:
            both = np.concatenate([then, now])
            kernel, random = self._kernel(both, both), np.random.default_rng(0)
            for _ in range(PERMUTATIONS + 1):
                member = random.permutation(len(both)) < WINDOW
                sums = kernel @ np.stack([member, ~member], axis=1).astype(np.float32)
                (sums * np.stack([member, ~member], axis=1)).sum()

        bits, threshold, permutations = (shortest(test) for test in (by_bits, by_threshold, by_permutations))
        print(
            f"milliseconds: bits {bits:.2f}, MMD with a known threshold {threshold:.1f} (the bits take "
            f"{bits / threshold:.1%}), with {PERMUTATIONS} permutations {permutations:.0f} ({bits / permutations:.2%})"
        )


def squared_distances(rows: NDArray[np.float32], columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """Float32 [n, m]."""
    squares = (rows**2).sum(axis=1)[:, None] + (columns**2).sum(axis=1)
    return np.maximum(squares - 2 * rows @ columns.T, 0)


def inner_mean(kernel: NDArray[np.float32], rows: NDArray[np.int64]) -> float:
    """The mean over pairs of different rows, whose own entries are 1."""
    return float((kernel[np.ix_(rows, rows)].sum() - len(rows)) / (len(rows) * (len(rows) - 1)))


def shortest(run: Callable[[], None]) -> float:
    """Milliseconds of processor time, the least of seven calls."""
    times = []
    for _ in range(7):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return 1000 * min(times)


def add_noise(image: Image.Image, deviation: float) -> Image.Image:
    """Gaussian noise, drawn by the image's own content."""
    pixels = np.asarray(image, np.float32)
    noise = np.random.default_rng(int(pixels.sum())).normal(0, deviation, pixels.shape)
    return Image.fromarray((pixels + noise).clip(0, 255).astype(np.uint8))


SHIFTS: dict[str, Corrupt] = {
    "noise, deviation 10": lambda image: add_noise(image, 10),
    "blur, radius 0.6": lambda image: image.filter(ImageFilter.GaussianBlur(0.6)),
    "brightness 0.6": lambda image: ImageEnhance.Brightness(image).enhance(0.6),
}

if __name__ == "__main__":
    main()
