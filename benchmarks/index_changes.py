"""What one change of a large index costs: time, and bytes written to the disk.

    python benchmarks/index_changes.py --items 1000000 10000000

Prints for each size: the build and the bytes of an item; the time of adding and of removing one item, p50 and p95, its
processor time, and what the kernel counts as written (`write_bytes` of /proc/self/io: the journal is in it); opening;
how long another reader takes to follow one change. Beside it, in turns, bare SQLite with the same journal rewrites one
blob of a block's size: the least that a change of a block can cost on this disk. Needs a folder on a real disk
(`--folder`): a tmpfs counts no bytes.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nsh.serving.index import Index
from nsh.serving.index.blocks import KEYS
from nsh.serving.index.database import FILE

BITS, TURNS, STEP = 64, 100, 1_000_000
LIMIT_MS, LIMIT_BYTES, LIMIT_OPEN_MS = 20.0, 1_000_000, 500.0
ENCODER = "0" * 64


class Cost(NamedTuple):
    """What one call costs."""

    milliseconds: float
    processor: float  # milliseconds, of all threads
    written: int  # bytes


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description="Benchmark changes of one item.")
    parser.add_argument("--items", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="where the indexes are made")
    arguments = parser.parse_args()
    for items in arguments.items:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        try:
            measure(folder / "index", items)
        finally:
            shutil.rmtree(folder)


def measure(folder: Path, items: int) -> None:
    """Build an index of `items` items, change it, and print what that cost."""
    print(f"{items} items x {BITS} bits, blocks of {KEYS} keys, load {os.getloadavg()[0]:.1f}")
    random = np.random.default_rng(0)
    build(folder, items, random)
    judge("open", [timed(lambda: Index.open(folder, readonly=True)) for _ in range(3)], LIMIT_OPEN_MS)
    index, reader = Index.open(folder), Index.open(folder, readonly=True)
    bare = open_bare(folder.parent, blobs=max(items // KEYS, 1))
    costs: dict[str, list[Cost]] = {what: [] for what in ("add", "follow", "remove", "bare")}
    for turn in range(TURNS):
        code = random.integers(0, 256, (1, BITS // 8), dtype=np.uint8)
        added, gone = f"added/{turn:010d}.jpg", name(int(random.integers(items)))
        costs["add"].append(timed(lambda added=added, code=code: index.add([added], code, encoder_identity=ENCODER)))
        costs["follow"].append(timed(reader.refresh))
        costs["remove"].append(timed(lambda gone=gone: index.remove([gone])))
        costs["bare"].append(timed(lambda: rewrite(bare, random)))
        index.add([gone], code, encoder_identity=ENCODER)
        reader.refresh()
    for what, values in costs.items():
        judge(what, values, LIMIT_MS)


def name(number: int) -> str:
    """An id of 40 characters."""
    return f"photographs/of/the/garden/{number:010d}.jpg"


def build(folder: Path, items: int, random: np.random.Generator) -> None:
    """Add `items` items, ids in the order of a listing, and print time and size."""
    begin, index = time.perf_counter(), Index.create(folder, bits=BITS, encoder_identity=ENCODER)
    for start in range(0, items, STEP):
        ids = [name(number) for number in range(start, min(start + STEP, items))]
        codes = random.integers(0, 256, (len(ids), BITS // 8), dtype=np.uint8)
        index.add(ids, codes, encoder_identity=ENCODER)
    print(f"build              {time.perf_counter() - begin:10.1f} s")
    print(f"on disk            {(folder / FILE).stat().st_size / items:10.1f} bytes an item, ids of 40 characters")


def open_bare(folder: Path, *, blobs: int) -> sqlite3.Connection:
    """A database of blobs of a block's size."""
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE block (number INTEGER PRIMARY KEY, content BLOB NOT NULL)")
    connection.execute("BEGIN")
    content = bytes(KEYS * (2 + BITS // 8))
    connection.executemany("INSERT INTO block VALUES (?, ?)", ((number, content) for number in range(blobs)))
    connection.execute("COMMIT")
    return connection


def rewrite(connection: sqlite3.Connection, random: np.random.Generator) -> None:
    """Replace one blob by another of another length, durably."""
    (blobs,) = connection.execute("SELECT MAX(number) + 1 FROM block").fetchone()
    content = random.bytes(KEYS * (2 + BITS // 8) - int(random.integers(100)))
    connection.execute("UPDATE block SET content = ? WHERE number = ?", (content, int(random.integers(blobs))))


def timed(call: Callable[[], object]) -> Cost:
    """What a call costs."""
    before, processor, start = written(), time.process_time(), time.perf_counter()
    call()
    elapsed, processor = time.perf_counter() - start, time.process_time() - processor
    return Cost(elapsed * 1000, processor * 1000, written() - before)


def written() -> int:
    """Bytes that this process has sent to the disk."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))


def judge(what: str, costs: list[Cost], limit: float) -> None:
    """Print medians and the 95th percentile of time, and whether medians are within their limits."""
    median, processor, size = (statistics.median(values) for values in zip(*costs, strict=True))
    high, met = np.percentile([cost.milliseconds for cost in costs], 95), median <= limit and size <= LIMIT_BYTES
    print(
        f"{what:<18} {median:8.1f} ms (p95 {high:.1f}; processor {processor:.1f}), {size / 1000:.0f} kB written: "
        f"{'met' if met else 'MISSED'} (<= {limit:g} ms, {LIMIT_BYTES / 1000:.0f} kB)"
    )


if __name__ == "__main__":
    main()
