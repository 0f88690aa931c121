"""Codes of earlier runs in a folder of codes, found by the content of the images.

When the images of a folder change, its shards are moved to `former/`, and the new shards take their codes from there.
The header is deleted first: from then on the folder is incomplete, and after any interruption the next run continues.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes
from nsh.core.manifest import HEADER, PLAN, Entry, Plan, codes_path, manifest_path, read_document
from nsh.errors import CodesError
from nsh.system.files import sha256_file, write_json

FORMER = "former"

_IMAGES = {"images", "images_sha256"}


@dataclass(frozen=True)
class Known:
    """Known entries and codes of some images."""

    entries: dict[str, Entry] = field(default_factory=dict)  # the last entry of each id
    codes: dict[str, NDArray[np.uint8]] = field(default_factory=dict)  # by the sha256 of the image's content

    def add(self, entries: list[Entry], codes: NDArray[np.uint8]) -> None:
        """Add a shard.

        Raises:
            ValueError: the numbers of codes and of entries with a code differ; then nothing is added.
        """
        good = [entry.sha256 for entry in entries if entry.status == "ok"]
        self.codes.update({sha256: code for sha256, code in zip(good, codes, strict=True) if sha256 is not None})
        self.entries.update({entry.id: entry for entry in entries})


class _Former(NamedTuple):
    """A former shard: its number, and its first and last id."""

    number: int
    first: str
    last: str


class FormerCodes:
    """The codes in a folder of codes: those of its shards and of its former shards."""

    def __init__(self, directory: Path, *, bits: int) -> None:
        """List the former shards in `directory`, with codes of `bits` bits."""
        self._directory, self._bits = directory, bits
        self._shards: list[_Former] = []
        for number in _shards_in(directory / FORMER):
            ids = [entry.id for entry in _read_entries(directory / FORMER, number)]
            if ids:
                self._shards.append(_Former(number, min(ids), max(ids)))

    def around(self, shard: int, first: str, last: str) -> Known:
        """The entries and codes of the shard `shard`, and of former shards with ids from `first` to `last`.

        Damaged shards are ignored. Memory is that of a few shards.
        """
        known = Known()
        for former in self._shards:
            if former.first <= last and first <= former.last:
                _take(known, self._directory / FORMER, former.number, bits=self._bits)
        _take(known, self._directory, shard, bits=self._bits)
        return known


def set_aside(directory: Path, plan: Plan, *, ids: set[str]) -> int:
    """Prepare a folder with the same encoder's codes of other images for `plan`; return how many images are gone.

    Codes of another encoder, or of images none of which is among `ids`, stay: `CodesWriter` refuses them. Where no
    image had a code, nothing stays. Shards that the header does not describe are ignored, so that damaged codes are not
    reused.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from nsh.core.codes_writer import CodesWriter
        >>> from nsh.core.manifest import digest_ids
        >>> both = Plan(encoder_identity="0" * 64, bits=8, images=2, images_sha256=digest_ids(["a.jpg", "b.jpg"]))
        >>> one = Plan(encoder_identity="0" * 64, bits=8, images=1, images_sha256=digest_ids(["b.jpg"]))
        >>> with TemporaryDirectory() as folder:
        ...     entries = [Entry(id="a.jpg"), Entry(id="b.jpg")]
        ...     CodesWriter(Path(folder), both).write(0, entries, np.array([[1], [2]], np.uint8))
        ...     set_aside(Path(folder), one, ids={"b.jpg"})  # a.jpg is gone
        ...     list(FormerCodes(Path(folder), bits=8).around(0, "b.jpg", "b.jpg").entries)
        1
        ['a.jpg', 'b.jpg']
    """
    found = next((read_document(directory / name) for name in (HEADER, PLAN) if (directory / name).exists()), None)
    if found is None:
        return 0
    changed = {name for name, value in plan.document.items() if found.get(name) != value}
    if changed - _IMAGES:
        return 0
    if "shards" in found:  # a header; a plan does not describe shards
        _drop_damaged(directory, found["shards"])
    former = _statuses_in(directory) | _statuses_in(directory / FORMER) if changed else {}
    if not changed or ("ok" in former.values() and former.keys().isdisjoint(ids)):
        return 0
    reopen(directory)
    for number in _shards_in(directory):
        _move(directory, number)
    write_json(directory / PLAN, plan.document)
    return len(former.keys() - ids)


def reopen(directory: Path) -> None:
    """Mark a complete folder as incomplete, before one of its shards changes.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_json(Path(folder, HEADER), {"schema": 2, "bits": 8})
        ...     reopen(Path(folder))
        ...     [path.name for path in Path(folder).iterdir()]
        ['plan.json']
    """
    if (directory / HEADER).exists():
        header = read_document(directory / HEADER)
        write_json(directory / PLAN, {name: header.get(name) for name in ("schema", *Plan.__dataclass_fields__)})
        (directory / HEADER).unlink()


def forget(directory: Path) -> None:
    """Delete the former shards.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Path(folder, FORMER).mkdir()
        ...     forget(Path(folder))
        ...     list(Path(folder).iterdir())
        []
    """
    shutil.rmtree(directory / FORMER, ignore_errors=True)


def _move(directory: Path, number: int) -> None:
    """Move a shard to the former ones, its manifest first: without manifest a shard counts as missing."""
    former = directory / FORMER
    former.mkdir(exist_ok=True)
    free = 1 + max(_shards_in(former), default=-1)
    manifest_path(directory, number).replace(manifest_path(former, free))
    codes_path(directory, number).replace(codes_path(former, free))


def _drop_damaged(directory: Path, shards: Any) -> None:
    for number in _shards_in(directory):
        places = {"manifest_sha256": manifest_path(directory, number), "codes_sha256": codes_path(directory, number)}
        try:
            sound = all(sha256_file(path) == shards[number][name] for name, path in places.items())
        except (OSError, LookupError, TypeError):
            sound = False
        if not sound:
            places["manifest_sha256"].unlink()


def _shards_in(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.jsonl") if path.stem.isdecimal())


def _statuses_in(directory: Path) -> dict[str, str]:
    return {entry.id: entry.status for number in _shards_in(directory) for entry in _read_entries(directory, number)}


def _take(known: Known, directory: Path, number: int, *, bits: int) -> None:
    entries = list(_read_entries(directory, number))
    try:
        codes = np.load(codes_path(directory, number), allow_pickle=False)
        check_codes(codes, bits=bits)
        known.add(entries, codes)
    except (OSError, EOFError, ValueError, CodesError):
        return


def _read_entries(directory: Path, number: int) -> Iterator[Entry]:
    try:
        text = manifest_path(directory, number).read_text(encoding="utf-8")
        yield from [Entry(**json.loads(line)) for line in text.splitlines()]
    except (OSError, ValueError, TypeError):
        return
