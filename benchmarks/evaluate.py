"""Time and memory of `nsh.core.metrics.evaluate` against the evaluator that the field's repositories share.

    python benchmarks/evaluate.py                      10,000 queries x 50,000 gallery x 64 bits

The baseline is a new implementation of the common recipe: one query at a time, a float matmul of +-1 codes, a whole
argsort, mAP@k, P@k and the ranking PR curve. The comparison favours it: it sums its PR curves instead of keeping two
float64 tables [queries, gallery]; it measures no ties, balls or bits; and it runs with one BLAS thread and with as many
as ours, of which the faster counts (on a busy machine that is one). Its time is measured on evenly spaced queries and
scaled to all of them, because its loop is linear in the queries; ours is measured on all queries. All take turns, each
in its own process, on the same seeded codes: ten classes, with images near to and far from the centre of their class.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import pack, unpack
from nsh.core.metrics import evaluate

CLASSES = 10
LIMIT_SECONDS, LIMIT_GIB, LIMIT_RATIO = 60, 2, 5

Sides = tuple[NDArray[Any], NDArray[Any]]
Result = dict[str, float]


def main() -> None:
    """Compare, or be one of the compared processes."""
    arguments = parse()
    if arguments.role:
        print(json.dumps(measure(arguments)))
    else:
        compare(arguments)


def parse() -> argparse.Namespace:
    """Sizes of the comparison."""
    parser = argparse.ArgumentParser(description="Benchmark the evaluator against the field's common one.")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--gallery", type=int, default=50_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--k", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--baseline-queries", type=int, default=500, help="queries the baseline is timed on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--role", choices=["ours", "baseline"], help=argparse.SUPPRESS)
    parser.add_argument("--subset", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(arguments: argparse.Namespace) -> None:
    """Run both sides in turn and print times, memory and ratio."""
    print(f"{arguments.queries} queries x {arguments.gallery} gallery x {arguments.bits} bits, k {arguments.k}")
    print(f"{os.cpu_count()} cores, {platform.machine()}, numpy {np.__version__}, {arguments.threads} threads")
    results: dict[str, list[Result]] = {"baseline": [], "ours": []}
    for turn in range(1, arguments.rounds + 1):
        rivals = [run_apart("baseline", arguments.baseline_queries, blas=n, turn=turn) for n in (1, arguments.threads)]
        results["baseline"].append(min(rivals, key=lambda result: result["seconds"]))
        results["ours"].append(run_apart("ours", arguments.queries, blas=1, turn=turn))
    report(arguments, results)


def run_apart(role: str, subset: int, *, blas: int, turn: int) -> Result:
    """One side in a fresh process, so that its peak memory is its own."""
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, *sys.argv[1:], "--role", role, "--subset", str(subset)]
    threads = {"OMP_NUM_THREADS": str(blas), "OPENBLAS_NUM_THREADS": str(blas)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | threads)
    result: Result = json.loads(done.stdout)
    print(
        f"round {turn}  {role:<8}  {blas} BLAS thread(s) {result['seconds']:7.2f} s for {subset} queries, "
        f"{result['processor']:.2f} s of processor, load before {load:.1f}"
    )
    return result


def report(arguments: argparse.Namespace, results: dict[str, list[Result]]) -> None:
    """Medians over the rounds, and whether the targets are met."""
    scale = arguments.queries / arguments.baseline_queries
    ours = statistics.median(result["seconds"] for result in results["ours"])
    baseline = statistics.median(result["seconds"] for result in results["baseline"]) * scale
    ratios = [b["seconds"] * scale / o["seconds"] for b, o in zip(results["baseline"], results["ours"], strict=True)]
    memory = {role: max(result["peak_gib"] for result in rounds) for role, rounds in results.items()}
    same = run_apart("ours", arguments.baseline_queries, blas=1, turn=arguments.rounds)
    name = f"mAP_at_{arguments.k}"
    print(f"\nours      {ours:8.1f} s   peak {memory['ours']:.2f} GiB, everything measured")
    print(f"baseline  {baseline:8.1f} s   peak {memory['baseline']:.2f} GiB, mAP, P@k and PR; time scaled by {scale:g}")
    print(f"ratio     {statistics.median(ratios):8.1f}     from {min(ratios):.1f} to {max(ratios):.1f} by round")
    print(
        f"{name} on the baseline's queries: ours {same[name]:.5f}, tie-aware {same['mAP_tie_aware']:.5f}, "
        f"baseline {results['baseline'][0][name]:.5f} (its argsort orders ties as it likes)"
    )
    for what, met in (
        (f"time <= {LIMIT_SECONDS} s", ours <= LIMIT_SECONDS),
        (f"memory <= {LIMIT_GIB} GiB", memory["ours"] <= LIMIT_GIB),
        (f"ratio >= {LIMIT_RATIO}", statistics.median(ratios) >= LIMIT_RATIO),
    ):
        print(f"{what:<18} {'met' if met else 'MISSED'}")


def measure(arguments: argparse.Namespace) -> Result:
    """Time one side on `subset` of the queries, evenly spaced; peak memory includes numpy and the codes."""
    codes, labels = draw(arguments)
    chosen = np.linspace(0, arguments.queries - 1, arguments.subset).astype(int)
    codes, labels = (codes[0][chosen], codes[1]), (labels[0][chosen], labels[1])
    figures = run_ours if arguments.role == "ours" else run_baseline
    start, processor = time.perf_counter(), time.process_time()
    found = figures(codes, labels, arguments)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found | {"seconds": seconds, "processor": processor, "peak_gib": peak}


def draw(arguments: argparse.Namespace) -> tuple[Sides, Sides]:
    """Packed codes and one-hot labels of queries and gallery."""
    random = np.random.default_rng(0)
    centres = random.random((CLASSES, arguments.bits)) < 0.5
    codes, labels = [], []
    for count in (arguments.queries, arguments.gallery):
        owner = random.integers(0, CLASSES, count)
        noise = random.uniform(0.0, 0.45, (count, 1))
        codes.append(pack(centres[owner] ^ (random.random((count, arguments.bits), dtype=np.float32) < noise)))
        labels.append(np.eye(CLASSES, dtype=bool)[owner])
    return (codes[0], codes[1]), (labels[0], labels[1])


def run_ours(codes: Sides, labels: Sides, arguments: argparse.Namespace) -> Result:
    """All figures and curves of the project."""
    metrics = evaluate(*codes, *labels, bits=arguments.bits, k=arguments.k, threads=arguments.threads).metrics
    name = f"mAP_at_{arguments.k}"
    return {name: metrics[name], "mAP_tie_aware": metrics[f"mAP_tie_aware_at_{arguments.k}"]}


def run_baseline(codes: Sides, labels: Sides, arguments: argparse.Namespace) -> Result:
    """The common evaluator."""
    query, gallery = (np.where(unpack(side, bits=arguments.bits), 1, -1).astype(np.float32) for side in codes)
    query_labels, gallery_labels = (side.astype(np.float32) for side in labels)
    total, precision, recall = 0.0, np.zeros(len(gallery)), np.zeros(len(gallery))
    ranks = np.arange(1, len(gallery) + 1)
    for row in range(len(query)):
        relevant = (gallery_labels @ query_labels[row] > 0).astype(np.float32)
        order = np.argsort(0.5 * (arguments.bits - gallery @ query[row]))
        relevant = relevant[order]
        found = np.cumsum(relevant)
        precision += found / ranks
        recall += found / max(found[-1], 1)
        places = np.flatnonzero(relevant[: arguments.k]) + 1
        total += float(np.mean(np.arange(1, len(places) + 1) / places)) if len(places) else 0.0
    return {f"mAP_at_{arguments.k}": total / len(query)}


if __name__ == "__main__":
    main()
