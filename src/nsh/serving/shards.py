"""Encodes the images of shards and writes the shards: the work of one process, alone or one of many.

Does not know how images were found, which process has which shard, or when a folder of codes is complete.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice

import numpy as np

from nsh.core.codes import code_bytes
from nsh.core.codes_writer import CodesWriter
from nsh.core.former_codes import FormerCodes
from nsh.serving.by_content import EncodedImage, Shard, State, cut_batches, encode_batch
from nsh.serving.encoder import BATCH, Encoder
from nsh.serving.sources import Source
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_ordered

AHEAD = 4
"""Batches in work or waiting for each thread, so that threads stay busy while one of them is slow."""


class ShardEncoder:
    """Encodes shards of one folder of codes. Several, in any processes, may share a folder."""

    def __init__(self, encoder: Encoder, source: Source, writer: CodesWriter, *, batch: int = BATCH) -> None:
        """Find the codes that the folder has already.

        Args:
            encoder: opened with the threads to use.
            source: reads the images.
            writer: of the folder.
            batch: images that a thread runs through the graph at a time; memory grows with it.
        """
        self._encoder, self._source, self._writer, self._batch = encoder, source, writer, batch
        self._former = FormerCodes(writer.directory, bits=writer.plan.bits)

    def encode(self, shards: Sequence[Shard], *, progress: Progress = no_progress) -> Counter[State]:
        """Encode and write the shards one after the other; return how many images are new, changed and kept.

        Every image is read and hashed. It is decoded and encoded only if its content has no code in the folder.

        Raises:
            CodesError: another run has begun the folder for other images.
            OSError: a shard cannot be written.
        """
        encoder, states = self._encoder, Counter[State]()
        with ThreadPoolExecutor(encoder.threads, thread_name_prefix="encode") as pool:
            batches = cut_batches(self._former, shards, length=self._batch)
            ahead = AHEAD * encoder.threads
            results = map_ordered(pool, lambda work: encode_batch(encoder, self._source, work), batches, ahead=ahead)
            total = sum(len(shard.ids) for shard in shards)
            encoded = iter(progress(chain.from_iterable(results), desc="encode", total=total))
            for shard in shards:
                done = list(islice(encoded, len(shard.ids)))
                self._write(shard.number, done)
                states.update(one.state for one in done)
        return states

    def _write(self, number: int, encoded: list[EncodedImage]) -> None:
        codes = [one.code for one in encoded if one.code is not None]
        nothing = np.empty((0, code_bytes(self._writer.plan.bits)), np.uint8)
        self._writer.write(number, [one.entry for one in encoded], np.stack(codes) if codes else nothing)
