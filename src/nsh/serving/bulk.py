"""Encodes files into a folder of codes: shard by shard, on every core, and so that a cut run goes on.

Several processes, on one machine or many, may share one folder: each encodes its own share of the shards, and
whichever finds all there declares the folder complete. The codes depend on the images and the encoder alone, not on
shares, threads, cuts or order; a folder begun for many shares may be cut into more and smaller shards. It does not know
how files were found nor how codes are searched.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import code_bytes
from nsh.core.codes_writer import CodesWriter
from nsh.core.errors import ConfigError, DataError, UnreadableImage
from nsh.core.files import sha256_file, write_text
from nsh.core.manifest import HEADER, PLAN, Entry, Plan, codes_path, digest_ids, manifest_path, read_document
from nsh.core.progress import Progress, no_progress
from nsh.core.threads import map_ordered
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.sources import ImageList

SHARD_ROWS = 4096
"""What a run that is cut may lose."""

AHEAD = 4
"""Batches in work or done and waiting, for each thread: none idles while another is slow with the oldest."""

ERRORS = "errors.jsonl"
"""In a complete folder, one line for each image without a code: id and error. Absent if there is none."""

Encoded = tuple[Entry, NDArray[np.uint8] | None]


@dataclass(frozen=True)
class Share:
    """Share `number` of `of`, 1 <= number <= of: the shards whose number is number - 1 modulo `of`."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Read "i/N".

        Raises:
            ConfigError: it is not that.
        """
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ConfigError(f"found shard {text!r}: of N shards the first is 1/N and the last N/N, as in 2/4")
        return cls(int(number), int(of))

    def takes(self, shard: int) -> bool:
        """Whether a shard belongs to this share."""
        return shard % self.of == self.number - 1


@dataclass(frozen=True)
class Summary:
    """What there is now. Counts are of this share's images; errors are in the ids' order."""

    images: int
    encoded: int  # have a code
    resumed: int  # were there before this run, with a code or an error
    errors: list[Entry]
    complete: bool  # the folder: all shares are there


def encode_files(
    encoder: Encoder,
    images: ImageList,
    *,
    out: Path,
    share: Share = Share(),
    batch: int = BATCH,
    progress: Progress = no_progress,
) -> Summary:
    """Encode what `out` does not hold yet, and complete the folder if nothing is missing then.

    Args:
        encoder: opened with the threads to use.
        images: what to encode; never written to.
        out: folder of codes (`nsh.core.manifest`), new or begun with the same encoder and images.
        share: which part of the work is this process's.
        batch: images that go through the graph at a time in each thread; memory grows with it.
        progress: counts images.

    Raises:
        CodesError: `out` holds something else.
        ConfigError: `out` cannot be made.
        DataError: not one of all the images could be decoded; or `out` lies among the images.
    """
    refuse_beside_images(out, images)
    writer = _open_writer(encoder, images, out=out, share=share)
    pending = [(shard, rows) for shard, rows in writer.pending() if share.takes(shard)]
    waiting = sum(len(rows) for _, rows in pending)
    with ThreadPoolExecutor(encoder.threads, thread_name_prefix="encode") as pool:
        ids = (images.ids[row] for row in chain.from_iterable(rows for _, rows in pending))
        batches = iter(lambda: list(islice(ids, batch)), [])
        results = map_ordered(
            pool, lambda names: _encode(encoder, images, names), batches, ahead=AHEAD * encoder.threads
        )
        encoded = iter(progress(chain.from_iterable(results), desc="encode", total=waiting))
        for shard, rows in pending:
            _write(writer, shard, list(islice(encoded, len(rows))))
    complete = _complete(writer)
    shards = [shard for shard in range(writer.plan.shards) if share.takes(shard)]
    total = sum(len(writer.plan.rows(shard)) for shard in shards)
    errors = [entry for shard in shards for entry in _failed(writer, shard)]
    return Summary(total, total - len(errors), total - waiting, errors, complete)


def refuse_beside_images(out: Path, images: ImageList) -> None:
    """Make sure that nothing is written among the images.

    Raises:
        DataError: `out` is a folder that an image is in or below.
    """
    here, root = out.resolve(), images.root.resolve()
    if not here.is_relative_to(root):
        return
    folder = "" if here == root else here.relative_to(root).as_posix() + "/"
    if any(image_id.startswith(folder) for image_id in images.ids):
        raise DataError(f"{out} holds images that are to be encoded: nothing is written beside images, name another")


def _open_writer(encoder: Encoder, images: ImageList, *, out: Path, share: Share) -> CodesWriter:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made ({error.strerror}): name a folder that can be written") from error
    with _locked(out):
        plan = Plan(
            encoder_sha256=encoder.sha256,
            bits=encoder.contract.bits,
            images=len(images.ids),
            images_sha256=digest_ids(images.ids),
            shard_rows=_shard_rows(out, len(images.ids), share),
        )
        return CodesWriter(out, plan)


def _shard_rows(out: Path, images: int, share: Share) -> int:
    """What the folder was begun with; for a new one, few enough that each share gets something."""
    for name in (HEADER, PLAN):
        if (out / name).exists():
            found = read_document(out / name).get("shard_rows")
            return found if isinstance(found, int) and found > 0 else SHARD_ROWS
    return min(SHARD_ROWS, -(-images // share.of))


def _encode(encoder: Encoder, images: ImageList, names: list[str]) -> list[Encoded]:
    """One batch, in a thread of the pool."""
    paths = [images.path(name) for name in names]
    digests = [_digest(path) for path in paths]
    return [
        (Entry(id=name, path=name, sha256=digest, status="error", error=str(result)), None)
        if isinstance(result, UnreadableImage)
        else (Entry(id=name, path=name, sha256=digest), result)
        for name, digest, result in zip(names, digests, encoder.encode_batch(paths), strict=True)
    ]


def _digest(path: Path) -> str | None:
    with suppress(OSError):  # the encoder says why
        if path.is_file():  # a pipe would be read for ever
            return sha256_file(path)
    return None


def _write(writer: CodesWriter, shard: int, encoded: list[Encoded]) -> None:
    codes = [code for _, code in encoded if code is not None]
    nothing = np.empty((0, code_bytes(writer.plan.bits)), np.uint8)
    writer.write(shard, [entry for entry, _ in encoded], np.stack(codes) if codes else nothing)


def _complete(writer: CodesWriter) -> bool:
    """Declare the folder complete if it is; whether it is."""
    if any(writer.pending()):
        return False
    if (writer.directory / HEADER).exists():
        return True
    errors = [entry for shard in range(writer.plan.shards) for entry in _failed(writer, shard)]
    if len(errors) == writer.plan.images:
        raise DataError(
            f"not one of the {len(errors)} images could be decoded (the first, {quote(errors[0].id)}: "
            f"{errors[0].error}): mend them, delete {writer.directory} and encode again"
        )
    with _locked(writer.directory):
        if errors:
            lines = (json.dumps({"id": entry.id, "error": entry.error}) + "\n" for entry in errors)
            write_text(writer.directory / ERRORS, "".join(lines))
        writer.finish()
    return True


def _failed(writer: CodesWriter, shard: int) -> Iterable[Entry]:
    """The shard's images without a code; the manifest is read only if there are any."""
    codes = np.load(codes_path(writer.directory, shard), mmap_mode="r", allow_pickle=False)
    if len(codes) == len(writer.plan.rows(shard)):
        return []
    lines = manifest_path(writer.directory, shard).read_text(encoding="utf-8").splitlines()
    return [entry for entry in (Entry(**json.loads(line)) for line in lines) if entry.status == "error"]


def quote(image_id: str) -> str:
    """An id as one line that can be read, whatever characters it is made of."""
    return json.dumps(image_id, ensure_ascii=not image_id.isprintable())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time begins or completes a folder; where folders know no locks, chance must do."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
