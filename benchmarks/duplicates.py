"""Time and accuracy of `nsh duplicates` against imagededup on the same folder with known duplicates.

    python benchmarks/duplicates.py --model encoder.onnx --photos photos

The script makes the folder: photographs, and for some of them copies that are resized, recompressed, cropped and
brightened. A pair is right if both come from one photograph. imagededup runs in its own environment, because it
requires torch: give its interpreter with --rival (`python -m venv rival && rival/bin/pip install imagededup`); if it is
not installed, only `nsh duplicates` is measured. Each tool runs at several thresholds, and all are shown.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

RADII = {64: (0, 2, 4, 6, 8), 32: (0, 1, 2, 3, 4), 16: (0, 1, 2)}
COPIES = ("resized", "recompressed", "cropped", "brighter")

RIVAL = """
import json, sys, time
from imagededup.methods import CNN, PHash, DHash

folder, results = sys.argv[1], []
for name, make, key, limits in (
    ("PHash", PHash, "max_distance_threshold", (0, 4, 8, 10, 12)),
    ("DHash", DHash, "max_distance_threshold", (0, 4, 8, 10, 12)),
    ("CNN", CNN, "min_similarity_threshold", (0.95, 0.9, 0.85, 0.8)),
):
    try:
        method = make(verbose=False)
    except Exception as error:
        print(f"imagededup's {name} cannot be used here: {error}", file=sys.stderr)
        continue
    start = time.perf_counter()
    encodings = method.encode_images(image_dir=folder)
    encoding = time.perf_counter() - start
    for limit in limits:
        start = time.perf_counter()
        found = method.find_duplicates(encoding_map=encodings, **{key: limit})
        seconds = time.perf_counter() - start
        pairs = sorted({tuple(sorted((one, other))) for one, others in found.items() for other in others})
        results.append({"method": name, "limit": limit, "encode": encoding, "search": seconds, "pairs": pairs})
print("RESULTS" + json.dumps(results))
"""

OURS = """
import json, sys, time
from pathlib import Path
import numpy as np
from nsh.core.hamming import within
from nsh.serving.duplicates import find_groups
from nsh.serving.encoder import Encoder

folder, model, results = Path(sys.argv[1]), sys.argv[2], []
encoder = Encoder(model)
names = sorted(path.name for path in folder.iterdir())
start = time.perf_counter()
codes = encoder.encode([folder / name for name in names])
encoding = time.perf_counter() - start
for limit in json.loads(sys.argv[3])[str(encoder.contract.bits)]:
    start = time.perf_counter()
    groups = find_groups(codes, radius=limit)
    seconds = time.perf_counter() - start
    near = within(codes, codes, radius=limit)
    pairs = sorted([names[a], names[b]] for a, (rows, _) in enumerate(near) for b in rows.tolist() if a < b)
    results.append({"method": f"nsh, {encoder.contract.bits} bits", "limit": limit, "encode": encoding,
                    "search": seconds, "pairs": pairs, "groups": len(groups)})
print("RESULTS" + json.dumps(results))
"""


def main() -> None:
    """Make the folder, run all sides in turn, print one table."""
    parser = argparse.ArgumentParser(description="Benchmark nsh duplicates against imagededup.")
    parser.add_argument("--model", type=Path, help="an encoder.onnx  [default: the 64-bit ones below models/]")
    parser.add_argument("--photos", type=Path, help="a folder of photographs  [default: scikit-learn's, in crops]")
    parser.add_argument("--limit", type=int, default=400, help="photographs taken, evenly spaced")
    parser.add_argument("--rival", default=sys.executable, help="a Python that has imagededup")
    arguments = parser.parse_args()
    models = [arguments.model] if arguments.model else sorted(Path("models").glob("*-64/encoder.onnx"))
    if not models:
        sys.exit("no encoder: name one with --model, or make one with `make repro`")
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "images"
        folder.mkdir()
        right = make_folder(folder, photographs(arguments.photos, arguments.limit))
        count = len(list(folder.iterdir()))
        load = os.getloadavg()[0]
        print(f"{count} images, {len(right)} pairs of one photograph; {os.cpu_count()} cores, load {load:.1f}")
        limits = json.dumps(RADII)
        results = [row for model in models for row in run(sys.executable, OURS, str(folder), str(model), limits)]
        if shutil.which(arguments.rival) and has_rival(arguments.rival):
            results += run(arguments.rival, RIVAL, str(folder))
        else:
            print(f"imagededup is not installed in {arguments.rival}: only ours is measured (see --rival)")
    show(results, right, count)


def photographs(source: Path | None, limit: int) -> Iterable[Image.Image]:
    """RGB images, evenly spaced among those of the folder, or crops of the two that scikit-learn ships."""
    if source is None:
        from sklearn.datasets import load_sample_images

        pictures, random = load_sample_images().images, np.random.default_rng(0)
        for number in range(limit):
            picture = pictures[number % 2]
            top, left = (int(random.integers(0, length - 128)) for length in picture.shape[:2])
            yield Image.fromarray(picture[top : top + 128, left : left + 128])
        return
    paths = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    for row in np.unique(np.linspace(0, len(paths) - 1, limit).astype(int)):
        yield Image.open(paths[row]).convert("RGB")


def make_folder(folder: Path, images: Iterable[Image.Image]) -> set[tuple[str, str]]:
    """Write the photographs, of every fourth its copies too; returns the pairs of names that belong together."""
    right: set[tuple[str, str]] = set()
    for number, image in enumerate(images):
        names = [f"{number:05d}-original.jpg"]
        image.save(folder / names[0], quality=95)
        if number % 4 == 0:
            for kind in COPIES:
                names.append(f"{number:05d}-{kind}.jpg")
                copy(image, kind).save(folder / names[-1], quality=40 if kind == "recompressed" else 90)
        right |= {(min(pair), max(pair)) for pair in itertools.combinations(names, 2)}
    return right


def copy(image: Image.Image, kind: str) -> Image.Image:
    """A near copy of one kind."""
    width, height = image.size
    if kind == "resized":
        return image.resize((max(16, width * 3 // 4), max(16, height * 3 // 4)))
    if kind == "cropped":
        return image.crop((width // 20, height // 20, width - width // 20, height - height // 20))
    return ImageEnhance.Brightness(image).enhance(1.15) if kind == "brighter" else image


def has_rival(python: str) -> bool:
    """Whether that interpreter can import imagededup."""
    return subprocess.run([python, "-c", "import imagededup"], capture_output=True, check=False).returncode == 0


def run(python: str, code: str, *arguments: str) -> list[dict[str, Any]]:
    """One side, in a process of its own."""
    done = subprocess.run([python, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULTS"))
    return list(json.loads(line.removeprefix("RESULTS")))


def show(results: list[dict[str, Any]], right: set[tuple[str, str]], count: int) -> None:
    """One line for each side and threshold."""
    print(f"{'method':<14} {'limit':>5}  {'encode':>9}  {'search':>9}  {'pairs':>6}  {'right':>6}  recall  precision")
    for row in results:
        pairs = {tuple(pair) for pair in row["pairs"]}
        good = len(pairs & right)
        print(
            f"{row['method']:<14} {row['limit']:>5}  {count / row['encode']:7.1f}/s  {row['search']:7.2f} s  "
            f"{len(pairs):>6}  {good:>6}  {good / max(1, len(right)):6.3f}  {good / max(1, len(pairs)):9.3f}"
        )


if __name__ == "__main__":
    main()
