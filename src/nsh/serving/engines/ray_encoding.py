"""Encodes files into a folder of codes on all machines of a Ray cluster: the same folder as one process makes.

This process plans the shards and completes the folder; Ray Data hands the shards to actors. An actor opens the encoder
once, encodes with threads of its own, and writes its shards. All machines must see the folder and the images at the
same paths. If an actor or its machine dies, others make its shards. This process must be connected to Ray
(`nsh.serving.engines.ray_cluster`).
"""

import platform
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import HEADER, PLAN, Plan
from nsh.errors import ClusterError, ConfigError, NshError
from nsh.serving.bulk import WHOLE, Share, Summary, begin, finish
from nsh.serving.by_content import STATES, Shard, State
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.shards import ShardEncoder
from nsh.serving.sources import Images, Source
from nsh.system.places import explain
from nsh.system.progress import Progress, no_progress

THREADS = 4
"""Cores of an actor, if the machines have as many: an actor holds one session, and sessions take memory."""

RETRIES = 3
"""How often a shard is begun again after its actor died: an image that ends each process must not stop the run."""

_DECIDE_BITS = ("nsh", "numpy", "onnxruntime", "pillow")
"""Packages that must have the same versions on all machines."""

_WITNESSES = 100  # images that are tried until one can be read


@dataclass(frozen=True)
class Work:
    """What every actor is told."""

    model: bytes  # the encoder's file
    max_pixels: int
    threads: int
    batch: int
    source: Source
    witness: tuple[int, str] | None  # row and id of an image that can be read; None if none was found
    out: Path
    plan: Plan
    versions: dict[str, str]


class ShardActor:
    """Encodes shards in a process that Ray starts on any machine."""

    def __init__(self, work: Work) -> None:
        """Keep the work. The encoder is opened for the first shard, whose answer can say what failed."""
        self._work = work

    def __call__(self, shard: dict[str, Any]) -> dict[str, Any]:
        """Encode and write the shard {number, first, ids}; answer how many images are in each state, and an error."""
        states, error = Counter[State](), ""
        try:
            states = self._shards.encode([Shard(shard["number"], shard["first"], list(shard["ids"]))])
        except NshError as refusal:
            error = str(refusal)
        except OSError as refusal:
            error = explain(refusal) or ""
            if not error:
                raise
        return {**{state: states[state] for state in STATES}, "error": error and f"{error} (on {platform.node()})"}

    @cached_property
    def _shards(self) -> ShardEncoder:
        work = self._work
        if (found := versions()) != work.versions:
            raise ClusterError(f"found {found}, the run was started with {work.versions}: install the same versions")
        if work.witness is not None and not _can_read(work.source, work.witness):
            raise ClusterError(
                f"{work.witness[1]} cannot be read, which is an image elsewhere: share its folder or rights"
            )
        if not any((work.out / name).exists() for name in (PLAN, HEADER)):
            raise ClusterError(f"{work.out} does not hold the codes that were begun: name a folder that machines share")
        with TemporaryDirectory() as folder:
            path = Path(folder, "encoder.onnx")
            path.write_bytes(work.model)
            encoder = Encoder(path, threads=work.threads, max_pixels=work.max_pixels)
        return ShardEncoder(encoder, work.source, CodesWriter(work.out, work.plan), batch=work.batch)


def encode_on_ray(
    encoder: Encoder,
    images: Images,
    *,
    out: Path,
    threads: int | None = None,
    share: Share = WHOLE,
    batch: int = BATCH,
    progress: Progress = no_progress,
) -> Summary:
    """Update the codes in `out` as `nsh.serving.bulk.encode_files` does, on all machines of the cluster.

    Args:
        encoder: its file is sent to the actors.
        images: the images to encode; every machine must see them.
        out: folder of codes that every machine sees.
        threads: cores of an actor; None: `THREADS`, or as many as the largest machine has.
        share: this cluster's part of the work.
        batch: images that a thread runs through the graph at a time.
        progress: counts images, a shard at a time.

    Raises:
        ClusterError: a machine sees no image or another folder, has other versions, or cannot write.
        ConfigError: no machine has as many cores; and as `encode_files`.
        CodesError, DataError: as `encode_files`.
    """
    cores, threads = _choose_threads(threads)
    tried = islice(enumerate(images.ids), _WITNESSES)
    witness = next((image for image in tried if _can_read(images.source, image)), None)
    job = begin(encoder, images, out=out, share=share)
    work = Work(
        model=encoder.path.read_bytes(),
        max_pixels=encoder.max_pixels,
        threads=threads,
        batch=batch,
        source=images.source,
        witness=witness,
        out=out.absolute(),
        plan=job.writer.plan,
        versions=versions(),
    )
    actors = max(1, sum(count // threads for count in cores))
    return finish(job, _run(job.shards, work, actors=actors, progress=progress))


def versions() -> dict[str, str]:
    """The versions of the packages that decide codes, here."""
    return {name: version(name) for name in _DECIDE_BITS}


def _can_read(source: Source, image: tuple[int, str]) -> bool:
    row, image_id = image
    return isinstance(next(source.read([image_id], first=row)), bytes)


def _choose_threads(asked: int | None) -> tuple[list[int], int]:
    """The cores of each machine, and those of an actor."""
    import ray

    cores = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    largest = max(cores, default=0)
    if asked is not None and asked > largest > 0:
        raise ConfigError(f"found threads = {asked}: the largest machine of the Ray cluster offers {largest} cores")
    return cores, asked or min(THREADS, largest) or THREADS  # a cluster may start its machines when it has work


def _run(shards: Sequence[Shard], work: Work, *, actors: int, progress: Progress) -> Counter[State]:
    """Let actors encode the shards; return how many images are in each state."""
    import ray.data

    states = Counter[State]()
    if not shards:
        return states
    rows = [shard._asdict() for shard in shards]
    with warnings.catch_warnings(category=DeprecationWarning, action="ignore"):  # no other way to limit retries yet
        answers = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            ShardActor,
            fn_constructor_kwargs={"work": work},
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=min(actors, len(rows)), max_size=len(rows)),
            num_cpus=work.threads,
            ray_remote_args_fn=lambda: {"max_task_retries": RETRIES},
        )

    def count() -> Iterator[None]:
        for answer in answers.iter_rows():
            if answer["error"]:
                raise ClusterError(answer["error"])
            states.update({state: answer[state] for state in STATES})
            yield from repeat(None, sum(answer[state] for state in STATES))

    total = sum(len(shard.ids) for shard in shards)
    for _ in progress(count(), desc="encode", total=total):
        pass
    return states
