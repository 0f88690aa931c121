"""Image files written byte by byte from their formats' specifications, for what Pillow cannot write."""

import struct
import zlib

import numpy as np

WIDTH, HEIGHT = 6, 5


def drawn(bits: int, channels: int = 1, seed: int = 0) -> np.ndarray:
    """Samples [H, W, channels] over the whole range, both ends among them."""
    samples = np.random.default_rng(seed).integers(0, 2**bits, (HEIGHT, WIDTH, channels), dtype=np.int64)
    samples[0, 0], samples[0, 1] = 0, 2**bits - 1
    return samples


def flat(samples: np.ndarray) -> np.ndarray:
    return samples.reshape(HEIGHT, -1)


def chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(samples: np.ndarray, bits: int, order: str = ">") -> list[bytes]:
    """The rows of samples [H, n], each padded to whole bytes, most significant bit first."""
    if bits >= 16 and bits % 8 == 0:
        return [row.astype(f"{order}u{bits // 8}").tobytes() for row in samples]
    places = np.arange(bits)[::-1]
    return [np.packbits((row[:, None] >> places) & 1).tobytes() for row in samples]


def png(samples: np.ndarray, *, bits: int, colour: int, before: bytes = b"", after: bytes = b"") -> bytes:
    """PNG of samples [H, W * channels]; `colour` is its colour type, `before` and `after` are chunks around IDAT."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    width, height = samples.shape[1] // channels, len(samples)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    rows = b"".join(b"\0" + row for row in packed(samples, bits))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + pixels + after + chunk(b"IEND")


TYPES = {3: "H", 4: "I", 5: "II", 7: "B"}


def tiff(size: tuple[int, int], tags: dict[int, tuple[int, list[int]]], strips: list[bytes], order: str = "<") -> bytes:
    """TIFF of uncompressed strips; `tags` gives each tag's type and values, layout and size come by themselves."""
    width, height = size
    content = {b"<"[0]: b"II*\0", b">"[0]: b"MM\0*"}[order.encode()[0]]
    offsets, data = [], b""
    for strip in strips:
        offsets.append(8 + len(data))
        data += strip + b"\0" * (len(strip) % 2)
    tags = {256: (4, [width]), 257: (4, [height]), 259: (3, [1]), 278: (4, [height])} | tags
    tags |= {273: (4, offsets), 279: (4, [len(strip) for strip in strips])}
    directory, extra, start = b"", b"", 8 + len(data)
    for tag, (kind, values) in sorted(tags.items()):
        packed_values = b"".join(struct.pack(order + TYPES[kind][0], value) for value in values)
        count = len(values) // len(TYPES[kind])
        if len(packed_values) > 4:
            place = start + 2 + 12 * len(tags) + 4 + len(extra)
            extra += packed_values
            packed_values = struct.pack(order + "I", place)
        directory += struct.pack(order + "HHI", tag, kind, count) + packed_values.ljust(4, b"\0")
    head = content + struct.pack(order + "I", start) + data
    return head + struct.pack(order + "H", len(tags)) + directory + bytes(4) + extra


def gif(
    screen: tuple[int, int], frame: tuple[int, int, int, int], palette: bytes, *, clear: int | None = None
) -> bytes:
    """GIF of 4 colours whose one frame (left, top, width, height) is of colour 1 everywhere, stored uncompressed."""
    left, top, width, height = frame
    control = b"" if clear is None else b"!\xf9\x04" + bytes([1, 0, 0, clear]) + b"\0"
    head = b"GIF89a" + struct.pack("<HH", *screen) + bytes([0x81, 0, 0]) + palette.ljust(12, b"\0")
    image = b"," + struct.pack("<HHHHB", left, top, width, height, 0)
    codes = []
    for _ in range(width * height):  # a clear code before each keeps codes at 3 bits
        codes += [4, 1]
    bits = sum(code << (3 * place) for place, code in enumerate([*codes, 5]))
    data = bits.to_bytes(3 * (len(codes) + 1) // 8 + 1, "little")
    blocks = b"".join(bytes([len(data[at : at + 255])]) + data[at : at + 255] for at in range(0, len(data), 255))
    return head + control + image + b"\x02" + blocks + b"\0;"


def bmp(rows: list[bytes], *, width: int, bits: int, palette: list[int], used: int = 0) -> bytes:
    """BMP of packed rows, top first, with a grey palette."""
    colours = b"".join(bytes([level] * 3 + [0]) for level in palette)
    data = b"".join(row + b"\0" * (-len(row) % 4) for row in reversed(rows))
    start = 54 + len(colours)
    head = b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start)
    info = struct.pack("<IiiHHIIiiII", 40, width, len(rows), 1, bits, 0, len(data), 0, 0, used, 0)
    return head + info + colours + data


def exif(orientation: int, *, order: str = "<") -> bytes:
    """An EXIF block, without "Exif\\0\\0", that states an orientation."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entry = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    return mark + struct.pack(order + "IH", 8, 1) + entry + bytes(4)
