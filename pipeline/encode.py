"""Stage encode: models/<method>-<bits>/encoder.onnx -> codes/<method>-<bits>/{query,gallery}, as production encodes.

Where the embed stage has already run the encoder's own backbone on these images, the encoder starts from their
embeddings, and proves on a sample that the whole graph gives the same codes (`nsh.export.cut`); else every image goes
through the whole graph. Shards wait in `.cache` until all are there, so a cut run goes on.
"""

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nsh.config import Params, read_params
from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids
from nsh.data.inventory import is_inventory
from nsh.data.registry import open_images
from nsh.data.split import SplitPart, read_header, read_part
from nsh.errors import DataError, UnreadableImage
from nsh.export import cut
from nsh.serving.encoder import Encoder
from nsh.system.command import run_stage
from nsh.system.files import sha256_bytes
from nsh.system.folders import atomic_folder
from nsh.terminal import show_progress

RAW, SPLIT, EMBED = Path("data/raw"), Path("data/split"), Path("data/embed")
MODELS, CODES, CACHE = Path("models"), Path("codes"), Path(".cache/nsh/encode")
PARTS = ("query", "gallery")
SHARD_ROWS = 4096  # what a cut run may lose

Load = Callable[[str], Image.Image]  # an id to its image
Encode = Callable[[range], NDArray[np.uint8]]  # rows of a part to their codes, uint8 [n, ceil(bits / 8)]


def main() -> None:
    """Encode query and gallery."""
    parser = argparse.ArgumentParser(description="Turn query and gallery into codes with models/<method>-<bits>.")
    parser.add_argument("--method", required=True, help="method that trained the encoder, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    arguments = parser.parse_args()
    params, key = read_params(), f"{arguments.method}-{arguments.bits}"
    path = MODELS / key / "encoder.onnx"
    made = {part: _encode_part(part, path, params) for part in PARTS}
    with atomic_folder(CODES / key) as folder:
        for part in PARTS:
            shutil.move(made[part], folder / part)


def _encode_part(part: str, path: Path, params: Params) -> Path:
    """Encode "query" or "gallery" into a folder of `CACHE`, which is returned."""
    rows, split = read_part(SPLIT, part), read_header(SPLIT)
    encoder, load = Encoder(path, threads=params.compute.threads), _open_images(params)
    short = cut.are_usable(EMBED, contract=encoder.contract, split_sha256=split["sha256"])
    plan = Plan(
        encoder_sha256=encoder.sha256,
        bits=encoder.contract.bits,
        images=len(rows.ids),
        images_sha256=digest_ids(rows.ids),
        shard_rows=SHARD_ROWS,
        notes={
            "data_set": split["data_set"],
            "split_sha256": split["sha256"],
            "part": part,
            "route": "embeddings" if short else "images",
        },
    )
    if short:
        codes = cut.encode_embeddings(path, np.load(EMBED / f"{part}.npy", mmap_mode="r"), batch=params.encode.batch)
        cut.prove(encoder, codes, rows.ids, load=load, seed=split["seed"])
        return _write(plan, rows, lambda shard: codes[shard.start : shard.stop], params)
    encoder = Encoder(path, threads=params.compute.threads, device=params.compute.device)
    return _write(
        plan, rows, lambda shard: _run(encoder, rows.ids, shard, load=load, batch=params.encode.batch), params
    )


def _run(encoder: Encoder, ids: list[str], shard: range, *, load: Load, batch: int) -> NDArray[np.uint8]:
    return encoder.encode(
        show_progress((load(ids[row]) for row in shard), desc="encode", total=len(shard)), batch=batch
    )


def _write(plan: Plan, rows: SplitPart, encode: Encode, params: Params) -> Path:
    """Write what is not yet in the plan's own folder of `CACHE`."""
    writer = CodesWriter(CACHE / sha256_bytes(json.dumps(asdict(plan)).encode())[:16], plan)
    files = is_inventory(RAW / params.dataset.name)  # then an id is the image's path below the root
    for number, shard in writer.pending():
        entries = [
            Entry(id=rows.ids[row], path=rows.ids[row] if files else None, sha256=rows.sha256[row]) for row in shard
        ]
        writer.write(number, entries, encode(shard))
    writer.finish()
    return writer.directory


def _open_images(params: Params) -> Load:
    data_set = params.dataset
    images = open_images(data_set.name, raw=RAW, root=data_set.root, labels=data_set.labels)

    def load(name: str) -> Image.Image:
        try:
            return images.image(name)
        except UnreadableImage as error:
            raise DataError(f"image {name!r} was readable when the split was drawn, not now: {error}") from error

    return load


if __name__ == "__main__":
    run_stage(main)
