"""Codes on disk: shards of packed codes, a JSON Lines manifest for each, and one JSON header.

    header.json     written last: a folder without it is incomplete and is not read
    00000.npy       uint8 [rows with status "ok", ceil(bits / 8)], in the manifest's order
    00000.jsonl     one line an image: id, path, sha256, status ("ok" or "error"), error
    plan.json       the plan of an incomplete folder; deleted once header.json is written
    00000.logits.npy  only of the pipeline's queries, see `nsh.core.query_logits`
    former/         former shards of an incomplete folder, see `nsh.core.former_codes`

An image that could not be encoded has a line and no code, so that no search finds it. Equal input gives equal bytes.
This module defines and reads the format; `nsh.core.codes_writer` writes it. Neither knows how codes are made.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_codes, code_bytes
from nsh.errors import CodesError
from nsh.system.files import read_json, sha256_bytes

HEADER, PLAN = "header.json", "plan.json"
SCHEMA = 2

_HEADER_TYPES = {"encoder_identity": str, "bits": int, "nested": list, "images": int, "count": int, "shards": list}
_SHARD_NAMES = {"codes_sha256", "manifest_sha256"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One image in a manifest."""

    id: str
    path: str | None = None  # posix, relative to the data set's root; None if the images are no files
    sha256: str | None = None  # of the image's content; None if it could not be read
    status: Literal["ok", "error"] = "ok"
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plan of a folder of codes: the encoder, the images, and the length of shards."""

    encoder_identity: str
    bits: int
    images: int
    images_sha256: str  # of the images' ids in order, see `digest_ids`
    shard_rows: int = 65_536
    nested: Sequence[int] = ()  # of the encoder's contract
    notes: Mapping[str, str] = field(default_factory=dict)  # copied into the header: data set, split, route

    @property
    def shards(self) -> int:
        """The number of shards."""
        return -(-self.images // self.shard_rows)

    @property
    def document(self) -> dict[str, Any]:
        """The content of `PLAN`; `HEADER` contains it too."""
        return {"schema": SCHEMA, **asdict(self), "nested": list(self.nested)}

    def rows(self, shard: int) -> range:
        """The rows of the images in `shard`."""
        return range(shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.images))


@dataclass(frozen=True)
class Codes:
    """A complete folder of codes: `ids[i]` has `codes[i]`, uint8 [n, ceil(bits / 8)]; `errors` have none."""

    ids: list[str]
    codes: NDArray[np.uint8]
    header: dict[str, Any]
    errors: list[Entry]


def digest_ids(ids: Sequence[str]) -> str:
    """SHA-256 of the ids in their order.

    Examples:
        >>> digest_ids(["a.jpg", "b.jpg"]) == digest_ids(["b.jpg", "a.jpg"])
        False
    """
    return sha256_bytes("\n".join(json.dumps(image_id) for image_id in ids).encode())


def read_codes(directory: Path) -> Codes:
    """Read a folder of codes, and check it against its header.

    Raises:
        CodesError: the folder is incomplete or damaged, has a schema that this version does not read, or names an id
            twice.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from nsh.core.codes_writer import CodesWriter
        >>> entries = [Entry(id="a.jpg"), Entry(id="b.jpg", status="error", error="the file is empty")]
        >>> plan = Plan(encoder_identity="0" * 64, bits=8, images=2, images_sha256=digest_ids(["a.jpg", "b.jpg"]))
        >>> with TemporaryDirectory() as folder:
        ...     writer = CodesWriter(Path(folder), plan)
        ...     writer.write(0, entries, np.array([[5]], np.uint8))
        ...     writer.finish()
        ...     found = read_codes(Path(folder))
        >>> found.ids, found.codes, [entry.id for entry in found.errors]
        (['a.jpg'], array([[5]], dtype=uint8), ['b.jpg'])
    """
    directory = Path(directory)
    header = _read_header(directory)
    shards = list(enumerate(header["shards"]))
    entries = [entry for shard, described in shards for entry in _read_manifest(directory, shard, described)]
    good = [entry for entry in entries if entry.status == "ok"]
    nothing = np.empty((0, code_bytes(header["bits"])), np.uint8)
    parts = [_read_shard(directory, shard, described, bits=header["bits"]) for shard, described in shards]
    codes = np.concatenate([nothing, *parts])
    if (len(entries), len(good), len(codes)) != (header["images"], header["count"], header["count"]):
        raise _damaged(directory, f"{len(entries)} lines, {len(codes)} codes")
    if len({entry.id for entry in entries}) != len(entries):
        raise CodesError(f"{directory} names an image twice: give every image its own id and encode again")
    return Codes([entry.id for entry in good], codes, header, [entry for entry in entries if entry.status == "error"])


def codes_path(directory: Path, shard: int) -> Path:
    """The file of a shard's codes.

    Examples:
        >>> codes_path(Path("codes"), 3).name
        '00003.npy'
    """
    return directory / f"{shard:05d}.npy"


def manifest_path(directory: Path, shard: int) -> Path:
    """The file of a shard's manifest.

    Examples:
        >>> manifest_path(Path("codes"), 3).name
        '00003.jsonl'
    """
    return directory / f"{shard:05d}.jsonl"


def read_document(path: Path) -> dict[str, Any]:
    """Read a header or a plan.

    Raises:
        CodesError: it is no JSON object, or has a schema that this version does not read.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, PLAN)
        ...     _ = path.write_text('{"schema": 2, "bits": 32}')
        ...     read_document(path)
        {'nested': [], 'schema': 2, 'bits': 32}
    """
    try:
        document = read_json(path)
    except ValueError as error:
        raise _damaged(path.parent, f"{path.name}: {error}") from error
    if not isinstance(document, dict):
        raise _damaged(path.parent, f"{path.name} is no JSON object")
    if document.get("schema") != SCHEMA:
        raise CodesError(
            f"the codes in {path.parent} have schema {document.get('schema')}, this version reads {SCHEMA}: "
            "encode again into a new folder"
        )
    return {"nested": []} | document  # earlier versions do not write it


def _read_header(directory: Path) -> dict[str, Any]:
    if not (directory / HEADER).exists():
        state = (
            "is incomplete: encode again, it goes on where it stopped" if (directory / PLAN).exists() else "has none"
        )
        raise CodesError(f"no codes can be read from {directory}: it {state}")
    header = read_document(directory / HEADER)
    wrong = [name for name, kind in _HEADER_TYPES.items() if not isinstance(header.get(name), kind)]
    if wrong:
        raise _damaged(directory, f"the header lacks {', '.join(sorted(wrong))}, or they are of another type")
    if not all(isinstance(shard, dict) and shard.keys() >= _SHARD_NAMES for shard in header["shards"]):
        raise _damaged(directory, "the header does not describe its shards")
    return header


def _read_manifest(directory: Path, shard: int, described: Mapping[str, Any]) -> list[Entry]:
    path = manifest_path(directory, shard)
    content = _read_checked(path, described["manifest_sha256"])
    try:
        return [Entry(**json.loads(line)) for line in content.decode("utf-8").splitlines()]
    except (ValueError, TypeError) as error:
        raise _damaged(directory, f"{path.name}: {error}") from error


def _read_shard(directory: Path, shard: int, described: Mapping[str, Any], *, bits: int) -> NDArray[np.uint8]:
    path = codes_path(directory, shard)
    codes = load_codes(io.BytesIO(_read_checked(path, described["codes_sha256"])), path=path)
    check_codes(codes, bits=bits)
    return codes


def load_codes(file: BinaryIO, *, path: Path) -> NDArray[np.uint8]:
    """Read the array in a shard's file.

    Raises:
        CodesError: the file holds no array; the message names the folder of `path`.

    Examples:
        >>> file = io.BytesIO()
        >>> np.save(file, np.array([[5]], np.uint8))
        >>> _ = file.seek(0)
        >>> load_codes(file, path=Path("codes/00000.npy"))
        array([[5]], dtype=uint8)
    """
    try:
        codes: NDArray[np.uint8] = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _damaged(path.parent, f"{path.name}: {error}") from error
    return codes


def _read_checked(path: Path, sha256: str) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise _damaged(path.parent, f"{path.name} is missing") from error
    if sha256_bytes(content) != sha256:
        raise _damaged(path.parent, f"{path.name} is not the file that the header describes")
    return content


def _damaged(directory: Path, finding: str) -> CodesError:
    return CodesError(f"the codes in {directory} are damaged ({finding}): delete the folder and encode again")
