"""Encodes files into a folder of codes: shard by shard, on every core, and so that a cut run goes on.

A folder that is there already is brought to what the images are now: by their content, not by their names.

Several processes, on one machine or many, may share one folder: each encodes its own share of the shards, and
whichever finds all there declares the folder complete. The codes depend on the images and the encoder alone, not on
shares, threads, cuts or order; a folder begun for many shares may be cut into more and smaller shards. It does not know
how files were found nor how codes are searched.
"""

import json
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from nsh.core.codes import code_bytes
from nsh.core.codes_writer import CodesWriter, locked
from nsh.core.former_codes import set_aside
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
from nsh.errors import ConfigError, DataError
from nsh.serving.arguments import ImageList
from nsh.serving.by_content import EncodedImage, State, cut_batches, encode_batch
from nsh.serving.encoder import BATCH, Encoder
from nsh.system.files import write_text
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_ordered

SHARD_ROWS = 4096
"""What a run that is cut may lose."""

AHEAD = 4
"""Batches in work or done and waiting, for each thread: none idles while another is slow with the oldest."""

ERRORS = "errors.jsonl"
"""In a complete folder, one line for each image without a code: id and error. Absent if there is none."""


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
    """What there is now. Counts are of this share's images but for `gone`; errors are in the ids' order."""

    images: int
    encoded: int  # have a code
    kept: int  # were there before this run with the same content, and a code or the same error
    new: int
    changed: int  # were there before this run with another content or another error
    gone: int  # were there before this run and are not among the images
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
    """Bring `out` to what the images are now, and complete the folder if nothing is missing then.

    Every image is read and hashed; only one whose content has no code in the folder yet is decoded and encoded, and one
    that could not be decoded before is tried again.

    Args:
        encoder: opened with the threads to use.
        images: what to encode; never written to.
        out: folder of codes (`nsh.core.manifest`), new, or made or begun with the same encoder.
        share: which part of the work is this process's.
        batch: images that go through the graph at a time in each thread; memory grows with it.
        progress: counts images.

    Raises:
        CodesError: `out` holds something else, or the codes of none of these images.
        ConfigError: `out` cannot be made.
        DataError: not one of all the images could be decoded; or `out` lies among the images.
    """
    refuse_beside_images(out, images)
    writer, gone = _open_writer(encoder, images, out=out, share=share)
    shards = [shard for shard in range(writer.plan.shards) if share.takes(shard)]
    total, states = sum(len(writer.plan.rows(shard)) for shard in shards), Counter[State]()
    with ThreadPoolExecutor(encoder.threads, thread_name_prefix="encode") as pool:
        batches = cut_batches(writer, images, shards, length=batch)
        ahead = AHEAD * encoder.threads
        results = map_ordered(pool, lambda work: encode_batch(encoder, images, work), batches, ahead=ahead)
        encoded = iter(progress(chain.from_iterable(results), desc="encode", total=total))
        for shard in shards:
            done = list(islice(encoded, len(writer.plan.rows(shard))))
            _write(writer, shard, done)
            states.update(one.state for one in done)
    complete = _complete(writer)
    errors = [entry for shard in shards for entry in _failed(writer, shard)]
    counts = {"kept": states["kept"], "new": states["new"], "changed": states["changed"], "gone": gone}
    return Summary(total, total - len(errors), **counts, errors=errors, complete=complete)


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


def _open_writer(encoder: Encoder, images: ImageList, *, out: Path, share: Share) -> tuple[CodesWriter, int]:
    """The writer of these images' codes, and how many images have left the folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made ({error.strerror}): name a folder that can be written") from error
    with locked(out):
        plan = Plan(
            encoder_sha256=encoder.sha256,
            bits=encoder.contract.bits,
            images=len(images.ids),
            images_sha256=digest_ids(images.ids),
            shard_rows=_shard_rows(out, len(images.ids), share),
        )
        gone = set_aside(out, plan, ids=set(images.ids))
        return CodesWriter(out, plan), gone


def _shard_rows(out: Path, images: int, share: Share) -> int:
    """What the folder was begun with; for a new one, few enough that each share gets something."""
    for name in (HEADER, PLAN):
        if (out / name).exists():
            found = read_document(out / name).get("shard_rows")
            return found if isinstance(found, int) and found > 0 else SHARD_ROWS
    return min(SHARD_ROWS, -(-images // share.of))


def _write(writer: CodesWriter, shard: int, encoded: list[EncodedImage]) -> None:
    codes = [one.code for one in encoded if one.code is not None]
    nothing = np.empty((0, code_bytes(writer.plan.bits)), np.uint8)
    writer.write(shard, [one.entry for one in encoded], np.stack(codes) if codes else nothing)


def _complete(writer: CodesWriter) -> bool:
    """Declare the folder complete if it is; whether it is."""
    with locked(writer.directory):
        if any(writer.pending()):
            return False
        if (writer.directory / HEADER).exists():
            if (writer.directory / PLAN).exists():  # of a run that was cut after all was done
                (writer.directory / PLAN).unlink()
            return True
        errors = [entry for shard in range(writer.plan.shards) for entry in _failed(writer, shard)]
        if len(errors) == writer.plan.images:
            raise DataError(
                f"not one of the {len(errors)} images could be decoded (the first, {quote(errors[0].id)}: "
                f"{errors[0].error}): mend them and encode again"
            )
        (writer.directory / ERRORS).unlink(missing_ok=True)
        if errors:
            lines = (json.dumps({"id": entry.id, "error": entry.error}) + "\n" for entry in errors)
            write_text(writer.directory / ERRORS, "".join(lines))
        writer.finish()
    return True


def _failed(writer: CodesWriter, shard: int) -> Iterable[Entry]:
    """The shard's images without a code; the manifest is read only if there are any."""
    path = codes_path(writer.directory, shard)
    with path.open("rb") as file:
        codes = load_codes(file, path=path)
    if len(codes) == len(writer.plan.rows(shard)):
        return []
    lines = manifest_path(writer.directory, shard).read_text(encoding="utf-8").splitlines()
    return [entry for entry in (Entry(**json.loads(line)) for line in lines) if entry.status == "error"]


def quote(image_id: str) -> str:
    """An id as one line that can be read, whatever characters it is made of."""
    return json.dumps(image_id, ensure_ascii=not image_id.isprintable())
