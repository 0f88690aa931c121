"""Codes of seven images in three shards, one of which cannot be read."""

import numpy as np
import pytest

from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids

IDS = [f"a/{row}.jpg" for row in range(7)]
BITS = 12
BROKEN = 3  # the row whose image cannot be read


@pytest.fixture
def codes():
    packed = np.random.default_rng(0).integers(0, 256, (7, 2), dtype=np.uint8)
    packed[:, 1] &= 0xF0
    return packed


def plan_of(ids=IDS, **changes) -> Plan:
    values = {"encoder_identity": "e" * 64, "bits": BITS, "images": len(ids), "images_sha256": digest_ids(ids)}
    return Plan(**{**values, "shard_rows": 3, "notes": {"data_set": "photographs"}, **changes})


def entry(row: int) -> Entry:
    if row == BROKEN:
        return Entry(id=IDS[row], path=IDS[row], status="error", error="the file is empty")
    return Entry(id=IDS[row], path=IDS[row], sha256=f"{row:064x}")


def write_shard(writer: CodesWriter, shard: int, codes) -> None:
    rows = writer.plan.rows(shard)
    good = [row for row in rows if row != BROKEN]
    writer.write(shard, [entry(row) for row in rows], codes[good])


def write_all(folder, codes, plan=None) -> None:
    writer = CodesWriter(folder, plan or plan_of())
    for shard, _ in writer.pending():
        write_shard(writer, shard, codes)
    writer.finish()


def files(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
