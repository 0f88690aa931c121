"""Time of exact search by tables (`nsh.serving.index.multi_index`) against the scan, FAISS and USearch.

    python benchmarks/search.py                                1 and 10 million codes of 64 bits, drawn near centres
    python benchmarks/search.py --items 100000000              100 million need 5 GB
    python benchmarks/search.py --codes codes --new others     codes of images, as `nsh encode` writes them, or .npy

Queries are codes of the set, and new ones. Every contender has one thread and answers the same query before the next
one is asked, so that other load affects all alike. Times are those of the processor (`time.process_time`), without
waiting for a busy one. The ratio is to FAISS's IndexBinaryFlat. "Equal" is the share of queries with the scan's
distances, for the tables with its rows and their order too. USearch is measured if it is installed (`pip install
usearch`); it has no search within a radius, its scan is slow and its HNSW graph takes long to build: see `--usearch`.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np

from nsh.core.manifest import read_codes
from nsh.serving.index import exact
from nsh.serving.index.multi_index import MultiIndex

try:
    import usearch
    from usearch.index import Index as Graph
    from usearch.index import MetricKind, ScalarKind
    from usearch.index import search as usearch_exact
except ImportError:
    usearch = None

BITS, K, RADIUS = 64, 10, 4
PER_CENTRE, FLIPPED = 1000, 0.1  # synthetic codes: this many near each centre, with this share of their bits flipped
GOAL = {"p50": 0.25, "p95": 1.0, "worst": 1.1}  # of FAISS's flat index

Search = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # a query [1, bytes]: rows and distances


class Workload(NamedTuple):
    """Codes and two kinds of queries, uint8 [n, bytes]."""

    codes: np.ndarray
    queries: dict[str, np.ndarray]


def main() -> None:
    """Measure every set of codes."""
    parser = argparse.ArgumentParser(description="Benchmark exact search by tables.")
    parser.add_argument("--items", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--codes", type=Path, help="codes of images instead: a folder of nsh encode, or a .npy file")
    parser.add_argument("--new", type=Path, help="codes of other images, as queries")
    parser.add_argument("--queries", type=int, default=100, help="queries of each kind")
    parser.add_argument("--usearch", type=int, default=1_000_000, help="largest set that USearch searches")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print(f"{platform.machine()}, faiss {faiss.__version__}, usearch {usearch.__version__ if usearch else 'missing'}")
    if arguments.codes:
        measure(read(arguments.codes, arguments.new, queries=arguments.queries), most=arguments.usearch)
    for items in [] if arguments.codes else arguments.items:
        measure(draw(items, queries=arguments.queries), most=arguments.usearch)


def draw(items: int, *, queries: int) -> Workload:
    """Codes near random centres; new codes near the same centres."""
    random = np.random.default_rng(0)
    centres = random.integers(0, 2, (max(1, items // PER_CENTRE), BITS), dtype=np.uint8)

    def near(count: int) -> np.ndarray:
        flips = random.random((count, BITS), dtype=np.float32) < FLIPPED
        return np.packbits(centres[random.integers(0, len(centres), count)] ^ flips, axis=1)

    codes = np.empty((items, BITS // 8), np.uint8)
    for start in range(0, items, 1 << 18):
        codes[start : start + (1 << 18)] = near(min(1 << 18, items - start))
    return Workload(codes, {"members": codes[random.integers(0, items, queries)], "new": near(queries)})


def read(codes: Path, new: Path | None, *, queries: int) -> Workload:
    """Codes of images; without new ones, the last are taken out of the set."""
    random = np.random.default_rng(0)
    held = load(codes)
    others = load(new) if new else held[-queries:]
    held = held if new else held[:-queries]
    chosen = {"members": held, "new": others}
    return Workload(held, {name: rows[random.integers(0, len(rows), queries)] for name, rows in chosen.items()})


def load(path: Path) -> np.ndarray:
    """The codes of a .npy file, or of a folder that `nsh encode` has written."""
    return np.ascontiguousarray(np.load(path) if path.suffix == ".npy" else read_codes(path).codes)


def measure(workload: Workload, *, most: int) -> None:
    """Build, search, and print; USearch only searches sets of `most` codes."""
    codes = workload.codes
    index = MultiIndex(codes)
    seconds, _ = timed(index.prepare)
    size = f"{index.nbytes / len(codes) + codes.shape[1]:.1f} bytes an item with its code"
    print(f"\n{len(codes):,} codes of {8 * codes.shape[1]} bits: tables in {seconds:.1f} s, {size}")
    flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
    flat.add(codes)
    rivals = {"FAISS flat": by_rank(lambda query: flat.search(query, K))}
    if usearch and len(codes) <= most:
        rivals |= {"USearch exact": by_usearch(codes), "USearch HNSW": by_hnsw(codes)}
    for kind, queries in workload.queries.items():
        by_k = {
            "tables": lambda query: index.nearest(query, k=K)[0],
            "scan": lambda query: exact.nearest(query, codes, k=K)[0],
        }
        compare(f"{kind}, k = {K}", by_k | rivals, queries)
        by_radius = {
            "tables": lambda query: index.within(query, radius=RADIUS)[0],
            "scan": lambda query: exact.within(query, codes, radius=RADIUS)[0],
            "FAISS flat": lambda query: flat_within(flat, query),
        }
        compare(f"{kind}, radius {RADIUS}", by_radius, queries)
    print(f"answered by the tables {index.proved}, by the scan {index.scanned}; load {os.getloadavg()[0]:.1f}")


def by_rank(search: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Search:
    """FAISS returns distances first."""

    def answer(query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distances, rows = search(query)
        return rows[0], distances[0]

    return answer


def flat_within(flat: faiss.IndexBinaryFlat, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """FAISS's radius is exclusive; its rows come in no order."""
    _, distances, rows = flat.range_search(query, RADIUS + 1)
    return exact.in_order(rows, distances.astype(np.int64))


def by_usearch(codes: np.ndarray) -> Search:
    """USearch's scan, without an index."""

    def answer(query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        metric, kind = MetricKind.Hamming, ScalarKind.B1
        found = usearch_exact(codes, query, K, metric, exact=True, threads=1, dtype=kind)
        return found.keys.reshape(-1), found.distances.reshape(-1)

    return answer


def by_hnsw(codes: np.ndarray) -> Search:
    """USearch's graph, which may miss neighbours."""
    graph = Graph(ndim=8 * codes.shape[1], metric=MetricKind.Hamming, dtype=ScalarKind.B1)
    seconds, _ = timed(lambda: graph.add(np.arange(len(codes)), codes, threads=1))
    print(f"USearch's graph in {seconds:.1f} s, {graph.memory_usage / len(codes):.0f} bytes an item")

    def answer(query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = graph.search(query[0], K, threads=1)
        return found.keys, found.distances

    return answer


def compare(what: str, contenders: dict[str, Search], queries: np.ndarray) -> None:
    """Ask every contender every query, in turns whose order changes; print times and how many answers are equal."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    equal = dict.fromkeys(contenders, 0)
    for turn, query in enumerate(queries):
        names, answers = list(contenders), {}
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds, answers[name] = timed(lambda ask=contenders[name], query=query: ask(query[None]))
            times[name].append(seconds)
        rows, distances = answers["scan"]
        for name, (found, near) in answers.items():
            equal[name] += np.array_equal(near, distances) and (name != "tables" or np.array_equal(found, rows))
    flat = np.array(times["FAISS flat"]) * 1000
    for name, values in times.items():
        print(f"{what:<18} {name:<14} {summary(np.array(values) * 1000, flat)}  equal {equal[name] / len(queries):.0%}")
    print(f"{'':<18} {judge(np.array(times['tables']) * 1000, flat)}")


def summary(values: np.ndarray, flat: np.ndarray) -> str:
    """Milliseconds at p50, p95 and worst, each with its ratio to that of the flat index."""
    pairs = zip(figures(values).items(), figures(flat).values(), strict=True)
    return "  ".join(f"{name} {value:8.3f} ms ({value / other:5.2f})" for (name, value), other in pairs)


def figures(values: np.ndarray) -> dict[str, float]:
    """p50, p95 and the largest."""
    return {"p50": np.percentile(values, 50), "p95": np.percentile(values, 95), "worst": values.max()}


def judge(ours: np.ndarray, flat: np.ndarray) -> str:
    """Which goals are met."""
    ratios = {name: value / figures(flat)[name] for name, value in figures(ours).items()}
    return ", ".join(
        f"{name} <= {goal} x flat {'met' if ratios[name] <= goal else 'MISSED'}" for name, goal in GOAL.items()
    )


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that a call takes, and its result."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
