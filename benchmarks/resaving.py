"""Bits that change when a photograph is saved again, and distances of different photographs: for choosing a radius.

    python benchmarks/resaving.py --model models/nsh_plus-64/encoder.onnx --photos photos

Every photograph is a JPEG of quality 95, and is saved again in the usual ways: quality 75 and 50, half the size, 5 %
cut off each side. The script prints the mean number of bits that differ, and the shares of copies and of pairs of
different photographs within the default radius of `nsh duplicates`.
"""

import argparse
import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from duplicates import photographs
from nsh.core.codes import unpack
from nsh.serving.duplicates import default_radius
from nsh.serving.encoder import Encoder


def main() -> None:
    """Encode every photograph and its copies; print one line for each way of saving."""
    parser = argparse.ArgumentParser(description="Measure the bits that re-saving flips.")
    parser.add_argument("--model", type=Path, help="an encoder.onnx  [default: the 64-bit ones below models/]")
    parser.add_argument("--photos", type=Path, help="a folder of photographs  [default: scikit-learn's, in crops]")
    parser.add_argument("--limit", type=int, default=400, help="photographs taken, evenly spaced")
    arguments = parser.parse_args()
    models = [arguments.model] if arguments.model else sorted(Path("models").glob("*-64/encoder.onnx"))
    if not models:
        sys.exit("no encoder: name one with --model, or make one with `make repro`")
    pictures = list(photographs(arguments.photos, arguments.limit))
    for model in models:
        show(Encoder(model), str(model), pictures)


def show(encoder: Encoder, name: str, pictures: list[Image.Image]) -> None:
    """The table of one encoder."""
    bits = encoder.contract.bits
    radius, originals = default_radius(bits), bits_of(encoder, [recompress(picture, 95) for picture in pictures])
    print(f"{name}: {bits} bits, {len(pictures)} photographs, radius {radius}")
    print(f"{'':<22} {'bits differ':>11}  {'within':>7}")
    for kind, save in SAVINGS.items():
        flips = (bits_of(encoder, [save(picture) for picture in pictures]) != originals).sum(axis=1)
        print(f"{kind:<22} {flips.mean():>11.2f}  {(flips <= radius).mean():>7.3f}")
    apart = (originals[:, None] != originals[None]).sum(axis=2)[np.triu_indices(len(pictures), 1)]
    near = int((apart <= radius).sum())
    print(f"{'different photographs':<22} {apart.mean():>11.2f}  {near} of {len(apart)} pairs")


def bits_of(encoder: Encoder, files: list[bytes]) -> NDArray[np.bool_]:
    """Bits [n, bits] of the files' codes."""
    return unpack(encoder.encode(files), bits=encoder.contract.bits).astype(np.bool_)


def recompress(picture: Image.Image, quality: int) -> bytes:
    """A JPEG file of the picture; large ones are decoded smaller, as files in production are."""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=quality)
    return content.getvalue()


def halve(picture: Image.Image) -> bytes:
    """Half as wide and high, and saved."""
    return recompress(picture.resize((max(1, picture.width // 2), max(1, picture.height // 2))), 90)


def crop(picture: Image.Image) -> bytes:
    """Without 5 % at each side, and saved."""
    across, down = picture.width // 20, picture.height // 20
    return recompress(picture.crop((across, down, picture.width - across, picture.height - down)), 90)


SAVINGS: dict[str, Callable[[Image.Image], bytes]] = {
    "JPEG 75": lambda picture: recompress(picture, 75),
    "JPEG 50": lambda picture: recompress(picture, 50),
    "half size": halve,
    "5 % cut off each side": crop,
}


if __name__ == "__main__":
    main()
