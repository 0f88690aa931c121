"""Encodes files into a folder of codes, shard by shard, on every core; an interrupted run continues.

An existing folder is updated by the content of the images, not by their names.

Several processes, on one or several machines, may share one folder. Each encodes its share of the shards, and the
process that finds all shards complete writes the header. The codes depend on the images and the encoder alone, not on
shares, threads, interruptions or order. Does not know how files were found or how codes are searched.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
from nsh.serving.by_content import STATES, Shard, State
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.shards import ShardEncoder
from nsh.serving.sources import Images
from nsh.system.files import write_text
from nsh.system.progress import Progress, no_progress

SHARD_ROWS = 4096
"""Images in a shard: what an interrupted run may lose."""

ERRORS = "errors.jsonl"
"""In a complete folder, one line for each image without a code: id and error. Missing if there is none."""


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


WHOLE = Share()


class Job(NamedTuple):
    """What a run has to do: the shards of its share, in a folder of codes that it has begun."""

    writer: CodesWriter
    shards: list[Shard]
    gone: int  # images that were in the folder and are not among the images


@dataclass(frozen=True)
class Summary:
    """The result of a run. Counts are of this share's images, except `gone`; errors are in the order of ids."""

    images: int
    encoded: int  # have a code
    kept: int  # were in the folder with the same content, and a code or the same error
    new: int
    changed: int  # were in the folder with another content or another error
    gone: int  # were in the folder and are not among the images
    errors: list[Entry]
    complete: bool  # whether the folder has the codes of all shares


def encode_files(
    encoder: Encoder,
    images: Images,
    *,
    out: Path,
    share: Share = WHOLE,
    batch: int = BATCH,
    progress: Progress = no_progress,
) -> Summary:
    """Update the codes in `out`, and complete the folder if no shard is missing.

    Every image is read and hashed. An image is decoded and encoded only if its content has no code in the folder yet.
    An image that could not be decoded before is tried again.

    Args:
        encoder: opened with the threads to use.
        images: the images to encode; they are only read.
        out: folder of codes (`nsh.core.manifest`), new, or made or begun with the same encoder.
        share: this process's part of the work.
        batch: images that a thread runs through the graph at a time; memory grows with it.
        progress: counts images.

    Raises:
        CodesError: `out` holds other files, or codes of none of these images.
        ConfigError: `out` cannot be made.
        DataError: no image at all could be decoded, or `out` is among the images.
    """
    job = begin(encoder, images, out=out, share=share)
    work = ShardEncoder(encoder, images.source, job.writer, batch=batch)
    return finish(job, work.encode(job.shards, progress=progress))


def begin(encoder: Encoder, images: Images, *, out: Path, share: Share = WHOLE) -> Job:
    """Begin or continue the codes of `images` in `out`; arguments and errors are those of `encode_files`."""
    if images.any_below(out):
        raise DataError(f"{out} holds images that are to be encoded: nothing is written beside images, name another")
    writer, gone = _open_writer(encoder, images, out=out, share=share)
    rows = {number: writer.plan.rows(number) for number in range(writer.plan.shards) if share.takes(number)}
    shards = [Shard(number, row.start, images.ids[row.start : row.stop]) for number, row in rows.items()]
    return Job(writer, shards, gone)


def finish(job: Job, states: Mapping[State, int]) -> Summary:
    """Complete the folder if no shard is missing, and describe what was done to the shards of `job`.

    Args:
        job: all of its shards are written.
        states: how many of its images are new, changed and kept.
    """
    complete = _complete(job.writer)
    errors = [entry for shard in job.shards for entry in _failed(job.writer, shard.number)]
    images = sum(len(shard.ids) for shard in job.shards)
    counts = {state: states.get(state, 0) for state in STATES}
    return Summary(images, images - len(errors), **counts, gone=job.gone, errors=errors, complete=complete)


def _open_writer(encoder: Encoder, images: Images, *, out: Path, share: Share) -> tuple[CodesWriter, int]:
    """Open the writer of these images' codes; also return how many images are gone from the folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made ({error.strerror}): name a folder that can be written") from error
    with locked(out):
        plan = Plan(
            encoder_identity=encoder.identity,
            bits=encoder.contract.bits,
            nested=encoder.contract.nested,
            images=len(images.ids),
            images_sha256=digest_ids(images.ids),
            shard_rows=_shard_rows(out, len(images.ids), share),
        )
        gone = set_aside(out, plan, ids=set(images.ids))
        return CodesWriter(out, plan), gone


def _shard_rows(out: Path, images: int, share: Share) -> int:
    """The shard length that the folder was begun with; in a new folder, small enough to give each share a shard."""
    for name in (HEADER, PLAN):
        if (out / name).exists():
            found = read_document(out / name).get("shard_rows")
            return found if isinstance(found, int) and found > 0 else SHARD_ROWS
    return min(SHARD_ROWS, -(-images // share.of))


def _complete(writer: CodesWriter) -> bool:
    """Write the header if no shard is missing; return whether the folder is complete."""
    with locked(writer.directory):
        if any(writer.pending()):
            return False
        if (writer.directory / HEADER).exists():
            if (writer.directory / PLAN).exists():  # a run was killed between writing the header and deleting the plan
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
    """The shard's images without a code; the manifest is read only if there is one."""
    path = codes_path(writer.directory, shard)
    with path.open("rb") as file:
        codes = load_codes(file, path=path)
    if len(codes) == len(writer.plan.rows(shard)):
        return []
    lines = manifest_path(writer.directory, shard).read_text(encoding="utf-8").splitlines()
    return [entry for entry in (Entry(**json.loads(line)) for line in lines) if entry.status == "error"]


def quote(image_id: str) -> str:
    """An id as one printable line, quoted as JSON."""
    return json.dumps(image_id, ensure_ascii=not image_id.isprintable())
