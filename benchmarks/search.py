"""Time of the index against FAISS's own IndexBinaryFlat over the same codes.

    python benchmarks/search.py                        1,000,000 items x 64 bits

The index also looks up ids, checks its input, and guarantees the order of ties; FAISS only searches. FAISS runs with
all threads, and with one, which is faster on a busy machine. Each is compared with ours separately, because FAISS's
threads spin for a while after a search and would slow down a third contender. The two of a pair take turns query by
query in one process, so that other load affects both; the worse of the two ratios counts. Times are medians; the load
is printed, because medians vary on a busy machine.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np

from nsh.serving.cores import cpu_quota
from nsh.serving.index import Index

BITS, K, BATCH, ADDED = 64, 10, 256, 100_000
LIMIT_RATIO, LIMIT_ADD_SECONDS, LIMIT_OPEN_SECONDS = 1.1, 2.0, 1.0
ENCODER = "0" * 64

Call = Callable[[], object]


def main() -> None:
    """Build, measure, and print whether the targets are met."""
    parser = argparse.ArgumentParser(description="Benchmark the index against raw FAISS.")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--single", type=int, default=200, help="single queries")
    parser.add_argument("--batches", type=int, default=10, help=f"batches of {BATCH} queries")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of adding and opening")
    arguments = parser.parse_args()
    machine = f"{cpu_quota()} cores, {platform.machine()}, faiss {faiss.__version__}"
    print(f"{arguments.items} items x {BITS} bits, k {K}; {machine}")
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (arguments.items, BITS // 8), dtype=np.uint8)
    queries = random.integers(0, 256, (max(arguments.single, BATCH), BITS // 8), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "index"
        index = build(folder, codes)
        raw = faiss.IndexBinaryFlat(BITS)
        raw.add(codes)
        met = [compare(index, raw, queries, size=1, turns=arguments.single)]
        met += [compare(index, raw, queries, size=BATCH, turns=arguments.batches)]
        met += [time_opening(folder, rounds=arguments.rounds), time_adding(index, random, rounds=arguments.rounds)]
    print("all targets met" if all(met) else "A TARGET WAS MISSED")


def build(folder: Path, codes: np.ndarray) -> Index:
    """An index of the codes, ids in random order as paths would be."""
    start, processor = time.perf_counter(), time.process_time()
    index = Index.create(folder, bits=BITS, encoder_identity=ENCODER)
    order = np.random.default_rng(1).permutation(len(codes))
    index.add([f"photographs/of/the/garden/{number:010d}.jpg" for number in order], codes, encoder_identity=ENCODER)
    processor = time.process_time() - processor
    print(f"build      {time.perf_counter() - start:8.2f} s, {processor:.2f} s of processor, load {load()}")
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    print(f"on disk    {megabytes:8.1f} MB, ids of 40 characters")
    return index


def compare(index: Index, raw: faiss.IndexBinaryFlat, queries: np.ndarray, *, size: int, turns: int) -> bool:
    """Ours against FAISS with one thread, then with all."""
    ratios = []
    for threads in (1, cpu_quota()):
        faiss.omp_set_num_threads(threads)
        ours, rival = [], []
        for turn in range(turns + 1):
            start = turn * size % (len(queries) - size + 1)
            query = queries[start : start + size]
            pair = [
                (ours, lambda query=query: index.search(query, k=K)),
                (rival, lambda query=query: raw.search(query, K)),
            ]
            for values, call in pair if turn % 2 else reversed(pair):
                values.append(timed(call))
        medians = [statistics.median(values[1:]) for values in (ours, rival)]  # the first turn warms up
        ratios.append(medians[0] / medians[1])
        print(
            f"{size:>4} at once: ours {medians[0] * 1000:8.2f} ms, raw with {threads} thread(s) "
            f"{medians[1] * 1000:8.2f} ms, ratio {ratios[-1]:.3f}, load {load()}"
        )
    return judge(f"{size} at once: ratio to raw <= {LIMIT_RATIO}", max(ratios), LIMIT_RATIO)


def time_opening(folder: Path, *, rounds: int) -> bool:
    """Open it, digests checked, and ask something."""
    query = np.zeros((1, BITS // 8), np.uint8)
    values = [timed(lambda: Index.open(folder, readonly=True).search(query, k=1)) for _ in range(rounds)]
    return judge(f"open and first search <= {LIMIT_OPEN_SECONDS} s", statistics.median(values), LIMIT_OPEN_SECONDS)


def time_adding(index: Index, random: np.random.Generator, *, rounds: int) -> bool:
    """Add codes with new ids, durably."""
    values, processors = [], []
    for turn in range(rounds):
        ids = [f"added/{turn}/{number:06d}.jpg" for number in random.permutation(ADDED)]
        codes = random.integers(0, 256, (ADDED, BITS // 8), dtype=np.uint8)
        processor = time.process_time()
        values.append(timed(lambda ids=ids, codes=codes: index.add(ids, codes, encoder_identity=ENCODER)))
        processors.append(time.process_time() - processor)
    print(f"add: {', '.join(f'{value:.2f}' for value in values)} s; {statistics.median(processors):.2f} s of processor")
    return judge(f"add of {ADDED} <= {LIMIT_ADD_SECONDS} s", statistics.median(values), LIMIT_ADD_SECONDS)


def timed(call: Call) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def judge(what: str, value: float, limit: float) -> bool:
    """Print whether a target is met."""
    print(f"{what:<45} {value:8.3f}  {'met' if value <= limit else 'MISSED'}, load {load()}")
    return value <= limit


def load() -> str:
    """Processes that want a core, over the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
