"""Codes of many views of real images, for benchmarks/search.py: learned codes lie otherwise than drawn ones.

    python benchmarks/augmented_codes.py --root CIFAR-10 --models models/nsh_plus-64/encoder.onnx --out /tmp/codes
    python benchmarks/search.py --codes /tmp/codes/nsh_plus-64.npy --new /tmp/codes/nsh_plus-64-new.npy

CIFAR-10 is a folder with train/<class>/*.jpg and test/<class>/*.jpg. An item is a training image or an augmented view
of one, as the trainings draw them; the new codes are those of the test images. All encoders see the same pixels, so
they must have one image size.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from nsh.core.preprocess import load_input
from nsh.serving.encoder import Encoder
from nsh.system.threads import map_in_threads
from nsh.training.augment import augment, view_generator

BATCH = 64

Item = tuple[Path, int, int]  # a file, its number, and the number of its view; 0: the image itself


def main() -> None:
    """Encode training images in as many views as are asked for, and the test images."""
    parser = argparse.ArgumentParser(description="Make many codes of real images.")
    parser.add_argument("--root", type=Path, required=True, help="CIFAR-10")
    parser.add_argument("--models", type=Path, nargs="+", required=True, help="encoders of one image size")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="a folder for <method>-<bits>.npy and -new.npy")
    arguments = parser.parse_args()
    encoders = [Encoder(path, threads=1) for path in arguments.models]
    train, test = (sorted(arguments.root.glob(f"{part}/*/*.jpg")) for part in ("train", "test"))
    arguments.out.mkdir(exist_ok=True)
    for end, paths, count in (("", train, arguments.items), ("-new", test, len(test))):
        batches = tqdm(list_batches(paths, count=count), mininterval=10)
        parts = map_in_threads(partial(encode, encoders), batches, threads=arguments.threads)
        for encoder, codes in zip(encoders, zip(*parts, strict=True), strict=True):
            name = f"{encoder.contract.method}-{encoder.contract.bits}{end}.npy"
            np.save(arguments.out / name, np.concatenate(codes))


def list_batches(paths: list[Path], *, count: int) -> list[list[Item]]:
    """The images, then a view of each, then another, up to `count` in all, in batches."""
    items = [(paths[row % len(paths)], row % len(paths), row // len(paths)) for row in range(count)]
    return [items[start : start + BATCH] for start in range(0, count, BATCH)]


def encode(encoders: list[Encoder], items: list[Item]) -> list[NDArray[np.uint8]]:
    """The codes by each encoder, uint8 [n, bytes]."""
    size, resample = encoders[0].contract.image_size, encoders[0].contract.resample
    pixels = np.stack([draw(item, size=size, resample=resample) for item in items])
    return [encoder.run(pixels).code for encoder in encoders]


def draw(item: Item, *, size: int, resample: str) -> NDArray[np.uint8]:
    """The pixels of a view, uint8 [S, S, 3]."""
    path, image, view = item
    if view == 0:
        return load_input(path, size=size, resample=resample)
    with Image.open(path) as opened:
        return augment(opened.convert("RGB"), view_generator(0, image=image, view=view), size=size, resample=resample)


if __name__ == "__main__":
    main()
