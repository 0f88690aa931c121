"""Make the image files of tests/golden/images and the pixels the encoder is to get from them (images.npz).

Run `python tests/golden/make_images.py` only to change the contract on purpose: then look at what changed, and say so.
"""

from pathlib import Path

import numpy as np
from PIL import Image

from nsh.core.preprocess import RESAMPLES, load_input

HERE = Path(__file__).parent
IMAGES = HERE / "images"
SIZE = 16
HEIGHT, WIDTH = 20, 28
ORIENTATION = 0x0112
# How a camera lays out an upright picture for each EXIF orientation: the inverse of what a viewer must do.
STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def picture() -> np.ndarray:
    """Smooth, without symmetry, all of RGB in use: uint8 [20, 28, 3]."""
    down, across = np.mgrid[0:HEIGHT, 0:WIDTH]
    red = 255 * across / (WIDTH - 1)
    green = 255 * down / (HEIGHT - 1)
    blue = 127.5 + 127.5 * np.cos(across / 5 + down / 9)
    return np.stack([red, green, blue], axis=-1).round().astype(np.uint8)


def grey() -> np.ndarray:
    return np.linspace(0, 255, HEIGHT * WIDTH).reshape(HEIGHT, WIDTH).round().astype(np.uint8)


def alpha() -> np.ndarray:
    return np.linspace(0, 255, HEIGHT * WIDTH).reshape(WIDTH, HEIGHT).T.round().astype(np.uint8)


def inks() -> np.ndarray:
    """The picture in CMYK with a common black of 40: uint8 [20, 28, 4], 0 is no ink."""
    plain = 255 - picture().astype(np.int64)
    return np.dstack([np.clip(plain, 0, 215), np.full((HEIGHT, WIDTH), 40)]).astype(np.uint8)


def save_cmyk(path: Path) -> None:
    Image.merge("CMYK", _bands(inks())).save(path, quality=100, subsampling=0)


def save_ycck(path: Path) -> None:
    """Pillow cannot write YCCK: store its four planes as if they were CMYK, then set the Adobe marker to 2 = YCCK."""
    cyan_magenta_yellow, black = inks()[..., :3], inks()[..., 3]
    planes = np.array(Image.fromarray(cyan_magenta_yellow).convert("YCbCr"))
    Image.merge("CMYK", _bands(np.dstack([255 - planes, black]))).save(path, quality=100, subsampling=0)
    content = bytearray(path.read_bytes())
    content[content.index(b"Adobe") + 11] = 2
    path.write_bytes(content)


def save_large() -> None:
    """JPEGs that are decoded at 1/2, 1/4 and 1/8 for `SIZE`; no side but that of 160 is a multiple of these."""
    turned, large = Image.Exif(), Image.fromarray(picture())
    turned[ORIENTATION] = 6
    large.resize((171, 123)).save(IMAGES / "large_half.jpg", quality=90)
    large.resize((160, 130)).convert("CMYK").save(IMAGES / "large_quarter_cmyk.jpg", quality=90)
    large.resize((301, 285)).save(IMAGES / "large_eighth_6.jpg", quality=90, exif=turned, progressive=True)


def _bands(array: np.ndarray) -> list[Image.Image]:
    return [Image.fromarray(np.ascontiguousarray(array[..., band])) for band in range(array.shape[-1])]


def make_files() -> None:
    IMAGES.mkdir(exist_ok=True)
    plain, faint = Image.fromarray(picture()), Image.fromarray(np.dstack([picture(), alpha()]))
    plain.save(IMAGES / "rgb.png")
    for orientation, store in STORED.items():
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        stored = Image.fromarray(np.ascontiguousarray(store(picture())))
        stored.save(IMAGES / f"orientation_{orientation}.jpg", exif=exif, quality=100, subsampling=0)
    Image.fromarray(grey()).save(IMAGES / "grey.png")
    Image.fromarray(grey().astype(np.uint16) * 257).save(IMAGES / "grey16.png")
    Image.fromarray(grey().astype(np.uint16) * 257).save(IMAGES / "grey16.tif")
    Image.fromarray(grey()).convert("1").save(IMAGES / "bilevel.png")
    faint.save(IMAGES / "rgba.png")
    Image.fromarray(np.dstack([grey(), alpha()])).save(IMAGES / "grey_alpha.png")
    plain.quantize(64).save(IMAGES / "palette.png")
    plain.quantize(64).save(IMAGES / "palette_clear.png", transparency=0)
    save_cmyk(IMAGES / "cmyk.jpg")
    save_ycck(IMAGES / "ycck.jpg")
    red, blue = (Image.new("RGB", (WIDTH, HEIGHT), colour) for colour in ("red", "blue"))
    red.save(IMAGES / "animated.gif", save_all=True, append_images=[blue], duration=100)
    plain.save(IMAGES / "rgb.webp", lossless=True)
    plain.save(IMAGES / "rgb.bmp")
    save_large()


def make_arrays() -> None:
    arrays = {
        f"{path.name}:{resample}": load_input(path, size=SIZE, resample=resample)
        for path in sorted(IMAGES.iterdir())
        for resample in RESAMPLES
    }
    np.savez_compressed(HERE / "images.npz", **arrays)


if __name__ == "__main__":
    make_files()
    make_arrays()
