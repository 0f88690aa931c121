"""Writes codes to disk in the format of `nsh.core.manifest`, shard by shard; an interrupted run continues.

Several processes may write shards of one folder, and a shard may be written again. Does not know how codes are made.
"""

import fcntl
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes, code_bytes
from nsh.core.former_codes import forget, reopen
from nsh.core.manifest import (
    HEADER,
    PLAN,
    Entry,
    Plan,
    codes_path,
    digest_ids,
    load_codes,
    manifest_path,
    read_document,
)
from nsh.errors import CodesError
from nsh.system.files import sha256_file, write_bytes, write_json, write_text
from nsh.system.folders import is_empty


class CodesWriter:
    """Writes a folder of codes shard by shard; opened again with the same plan, it continues."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        """Begin or continue the codes of `plan` in `directory`.

        Raises:
            CodesError: the folder holds codes of another encoder, of other images, or other files.
        """
        self.directory, self.plan = Path(directory), plan
        planned = plan.document
        found = _read_plan(self.directory)
        if found is None:
            write_json(self.directory / PLAN, planned)
        elif found != planned:
            _refuse_to_mix(self.directory, found=found, planned=planned)

    def pending(self) -> Iterator[tuple[int, range]]:
        """The missing shards, each with the rows of its images."""
        for shard in range(self.plan.shards):
            if not (manifest_path(self.directory, shard).exists() and codes_path(self.directory, shard).exists()):
                yield shard, self.plan.rows(shard)

    def write(self, shard: int, entries: Sequence[Entry], codes: NDArray[np.uint8]) -> None:
        """Write one shard; an existing shard with the same content is not written again.

        Args:
            shard: its number.
            entries: one for each of its images, in order.
            codes: uint8 [entries with status "ok", ceil(bits / 8)], in the same order.

        Raises:
            CodesError: entries, codes and plan do not agree, or another run has begun the folder for other images.
        """
        check_codes(codes, bits=self.plan.bits)
        good = sum(entry.status == "ok" for entry in entries)
        if (len(entries), good) != (len(self.plan.rows(shard)), len(codes)):
            raise CodesError(
                f"shard {shard} must have {len(self.plan.rows(shard))} images and a code for each good one: "
                f"found {len(entries)} images, {good} of them good, and {len(codes)} codes"
            )
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(codes), allow_pickle=False)
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries)
        with locked(self.directory):
            self._put(shard, buffer.getvalue(), lines)

    def _put(self, shard: int, codes: bytes, lines: str) -> None:
        if _read_plan(self.directory) != self.plan.document:
            raise CodesError(f"{self.directory} was begun for other images while this run encoded: start it again")
        places = codes_path(self.directory, shard), manifest_path(self.directory, shard)
        if all(path.is_file() for path in places) and [path.read_bytes() for path in places] == [codes, lines.encode()]:
            return
        reopen(self.directory)
        places[1].unlink(missing_ok=True)
        write_bytes(places[0], codes)
        write_text(places[1], lines)  # last: a manifest marks a complete shard

    def finish(self) -> None:
        """Write the header, which marks the folder as complete.

        Raises:
            CodesError: a shard is missing, or the shards are not of the images of the plan.
        """
        missing = [shard for shard, _ in self.pending()]
        if missing:
            raise CodesError(f"{self.directory} lacks {len(missing)} shard(s), first {missing[0]:05d}: run again")
        shards = [_describe_shard(self.directory, shard) for shard in range(self.plan.shards)]
        ids = [name for shard in range(self.plan.shards) for name in _read_ids(self.directory, shard)]
        if digest_ids(ids) != self.plan.images_sha256:
            raise CodesError(f"{self.directory} holds shards of other images: delete the folder and encode again")
        header = {
            **self.plan.document,
            "bytes": code_bytes(self.plan.bits),
            "bit_order": "most significant first",
            "count": sum(shard["codes"] for shard in shards),
            "errors": self.plan.images - sum(shard["codes"] for shard in shards),
            "shards": shards,
        }
        forget(self.directory)
        write_json(self.directory / HEADER, header)
        (self.directory / PLAN).unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time change a folder of codes; a file system without locks gives no protection.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, locked(Path(folder)):
        ...     write_json(Path(folder, PLAN), {"schema": 2})  # another process would wait here
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read_ids(directory: Path, shard: int) -> list[str]:
    return [json.loads(line)["id"] for line in manifest_path(directory, shard).read_text(encoding="utf-8").splitlines()]


def _describe_shard(directory: Path, shard: int) -> dict[str, Any]:
    codes, manifest = codes_path(directory, shard), manifest_path(directory, shard)
    with codes.open("rb") as file:
        rows = len(load_codes(file, path=codes))
    return {"codes": rows, "codes_sha256": sha256_file(codes), "manifest_sha256": sha256_file(manifest)}


def _read_plan(directory: Path) -> dict[str, Any] | None:
    """The plan of the folder's codes; None for a new folder."""
    for name in (HEADER, PLAN):
        if (directory / name).exists():
            found = read_document(directory / name)
            return {key: found.get(key) for key in ("schema", *Plan.__dataclass_fields__)}
    if directory.exists() and not is_empty(directory):
        raise CodesError(f"{directory} holds other files than codes: name a new or an empty folder")
    return None


def _refuse_to_mix(directory: Path, *, found: dict[str, Any], planned: dict[str, Any]) -> None:
    differences = [f"{key} {found[key]}, now {planned[key]}" for key in planned if found[key] != planned[key]]
    raise CodesError(
        f"{directory} holds codes of another encoder or of other images ({'; '.join(differences)}): "
        "name another folder, or delete this one"
    )
