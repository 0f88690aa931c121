"""Throughput of the HTTP service under many concurrent clients, compared with the bare encoder.

    python benchmarks/service.py                                        32 clients, 60 s
    python benchmarks/service.py --seconds 10 --images-per-request 1    one image a request

Three contenders take turns in every round: the bare session on ready arrays (as many concurrent calls as cores, the
fastest way found); the same with decoding; and the service, in its own process, with clients in a third process.
Clients and server share the cores, so the service's figure includes the clients' cost; their share of the processor is
printed. Latencies are of whole requests. Memory is the server's, read before and after. Requests go to 127.0.0.1 only.
"""

import argparse
import asyncio
import io
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from multiprocessing import Process, Queue
from pathlib import Path

import numpy as np
from PIL import Image

from nsh.core.preprocess import load_input
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index

BOUNDARY = "a-boundary-of-the-benchmark"
MODEL = Path("models/nsh_plus-32/encoder.onnx")
MIX = 64  # different images


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    images = make_images(arguments.width, arguments.height)
    with tempfile.TemporaryDirectory() as folder:
        print(f"load average before: {os.getloadavg()[0]:.1f}; {arguments.threads} threads")
        server, port = start_server(arguments, Path(folder))
        try:
            measure(arguments, images, server, port)
        finally:
            server.send_signal(signal.SIGTERM)
            print(f"server ended with {server.wait(60)} after SIGTERM")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Benchmark the HTTP service against the bare encoder.")
    parser.add_argument("--model", type=Path, default=MODEL, help=f"an encoder.onnx (default: {MODEL})")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the service under load, in all")
    parser.add_argument("--rounds", type=int, default=12, help="turns of the contenders")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--images-per-request", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8, help="images that share one inference in the service")
    parser.add_argument("--width", type=int, default=320, help="of the JPEGs sent")
    parser.add_argument("--height", type=int, default=240)
    return parser.parse_args()


def measure(arguments: argparse.Namespace, images: list[bytes], server: subprocess.Popen[bytes], port: int) -> None:
    """Run the contenders in turn and print."""
    encoder = Encoder(arguments.model, threads=1)
    size, resample = encoder.contract.image_size, encoder.contract.resample

    def prepare(content: bytes) -> np.ndarray:
        return load_input(content, size=size, resample=resample)

    ready = [prepare(image) for image in images]
    rates: dict[str, list[float]] = {"bare session": [], "bare session with decoding": [], "service": []}
    latencies: list[float] = []
    errors = 0
    share = arguments.seconds / arguments.rounds
    request = build_request(list(islice(cycle(images), arguments.images_per_request)), port)
    load(request, port, clients=arguments.clients, seconds=2.0)  # warms it up
    before = memory(server.pid)
    for _ in range(arguments.rounds):
        rates["bare session"].append(bare(lambda rows: encoder.run(np.stack(rows)), ready, arguments))
        rates["bare session with decoding"].append(
            bare(lambda rows: encoder.run(np.stack([prepare(row) for row in rows])), images, arguments)
        )
        outcome = load(request, port, clients=arguments.clients, seconds=share)
        rates["service"].append(outcome["answered"] * arguments.images_per_request / outcome["seconds"])
        latencies += outcome["latencies"]
        errors += outcome["errors"]
        print(f"  clients took {outcome['cpu'] / outcome['seconds']:.2f} cores, load {os.getloadavg()[0]:.1f}")
    show(rates, latencies, errors, (before, memory(server.pid)))
    show_batches(port)


def bare(run: Callable[[list], object], rows: list, arguments: argparse.Namespace) -> float:
    """Images a second: one single-threaded call a core at once, batch 8, for a sixth of the time."""
    until = time.perf_counter() + arguments.seconds / arguments.rounds / 3
    batches = [rows[start : start + 8] for start in range(0, len(rows), 8)]

    def work(_: int) -> int:
        done = 0
        for batch in cycle(batches):
            if time.perf_counter() > until:
                return done
            run(batch)
            done += len(batch)
        return done

    start = time.perf_counter()
    with ThreadPoolExecutor(arguments.threads) as pool:
        done = sum(pool.map(work, range(arguments.threads)))
    return done / (time.perf_counter() - start)


def make_images(width: int, height: int) -> list[bytes]:
    """Smooth noise as JPEGs, which decode about as photographs do."""
    generator = np.random.default_rng(0)
    contents = []
    for _ in range(MIX):
        small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=85)
        contents.append(buffer.getvalue())
    return contents


def start_server(arguments: argparse.Namespace, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """`nsh serve` over an index of one item, once it is ready."""
    encoder = Encoder(arguments.model)
    index = Index.create(folder / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    code = encoder.run(np.zeros((1, encoder.contract.image_size, encoder.contract.image_size, 3), np.uint8)).code
    index.add(["black"], code, encoder_identity=encoder.identity)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "nsh.cli", "serve", "--model", str(arguments.model), "--index"]
    command += [str(folder / "index"), "--port", str(port), "--threads", str(arguments.threads)]
    command += ["--batch", str(arguments.batch)]
    server = subprocess.Popen(command, stderr=(folder / "log").open("wb"))
    for _ in range(600):
        try:
            get(port, "/readyz")
        except OSError:
            time.sleep(0.1)
        else:
            return server, port
    server.kill()
    raise SystemExit((folder / "log").read_text())


def get(port: int, path: str) -> bytes:
    """One GET of the server, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        return bytes(response.read())


def build_request(images: list[bytes], port: int) -> bytes:
    """POST /v1/encode, ready to be sent again and again on one connection."""
    if len(images) == 1:
        kind, body = "image/jpeg", images[0]
    else:
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="%d.jpg"\r\n\r\n'
        body = b"".join((head % row).encode() + image + b"\r\n" for row, image in enumerate(images))
        body += f"--{BOUNDARY}--\r\n".encode()
    head = f"POST /v1/encode HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def load(request: bytes, port: int, *, clients: int, seconds: float) -> dict:
    """What `clients` that ask again as soon as they are answered get, from a process of their own."""
    results: Queue = Queue()
    process = Process(target=run_clients, args=(request, port, clients, seconds, results))
    process.start()
    outcome = results.get(timeout=seconds + 60)
    process.join()
    return outcome


def run_clients(request: bytes, port: int, clients: int, seconds: float, results: Queue) -> None:
    """All clients in one loop."""
    start = time.perf_counter()
    answers = asyncio.run(gather_clients(request, port, clients, start + seconds))
    taken = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    latencies = [latency for latency, good in answers if good]
    results.put(
        {
            "answered": len(latencies),
            "errors": len(answers) - len(latencies),
            "latencies": latencies,
            "seconds": taken,
            "cpu": usage.ru_utime + usage.ru_stime,
        }
    )


async def gather_clients(request: bytes, port: int, clients: int, until: float) -> list[tuple[float, bool]]:
    """Latency and success of every request."""
    gathered = await asyncio.gather(*(client(request, port, until) for _ in range(clients)))
    return [answer for answers in gathered for answer in answers]


async def client(request: bytes, port: int, until: float) -> list[tuple[float, bool]]:
    """One connection, kept."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    while (start := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
        body = await reader.readexactly(length)
        good = head.startswith(b"HTTP/1.1 200 ") and all(row["code"] for row in json.loads(body)["results"])
        answers.append((time.perf_counter() - start, good))
    writer.close()
    return answers


def memory(pid: int) -> float:
    """Resident MiB of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def show(rates: dict[str, list[float]], latencies: list[float], errors: int, resident: tuple[float, float]) -> None:
    """Print the table."""
    means = {name: float(np.mean(values)) for name, values in rates.items()}
    for name, value in means.items():
        rounds = " ".join(f"{rate:.0f}" for rate in rates[name])
        print(f"{name:<28} {value:8.1f} images/s   {means['service'] / value:6.1%} of it served   rounds: {rounds}")
    p50, p99 = np.percentile(latencies, [50, 99]) * 1000
    print(f"latency of a request: p50 {p50:.1f} ms, p99 {p99:.1f} ms, {len(latencies)} requests, {errors} errors")
    print(f"resident memory: {resident[0]:.0f} MiB before, {resident[1]:.0f} MiB after")


def show_batches(port: int) -> None:
    """The mean size of a batch, from the service's own metrics."""
    lines = get(port, "/metrics").decode().splitlines()
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}
    print(f"images in an inference: {values['nsh_batch_images_sum'] / values['nsh_batch_images_count']:.1f} on average")


if __name__ == "__main__":
    main()
