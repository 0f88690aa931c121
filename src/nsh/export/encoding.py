"""Encodes the parts of a split with an exported encoder and production code. Knows no data set.

If the embed stage has run the encoder's own backbone on these images, the encoder starts from their embeddings, and a
sample proves that the whole graph gives the same codes (`nsh.export.cut`). Otherwise every image runs through the whole
graph. Queries keep their logits too, for re-ranking. Shards are kept in a cache until all are complete, so that an
interrupted run continues.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids
from nsh.core.query_logits import write_logits
from nsh.core.reading import Load, read_image
from nsh.errors import UnreadableImage
from nsh.export import cut
from nsh.project.embeddings import Embeddings
from nsh.serving.encoder import Encoder
from nsh.system.files import sha256_json
from nsh.system.progress import Progress, no_progress

SHARD_ROWS = 4096  # images that an interrupted run may lose

Encoded = tuple[NDArray[np.uint8], NDArray[np.float32]]
"""Codes uint8 [n, ceil(bits / 8)] and logits float32 [n, bits] of n images."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The images of a part of the split.

    Attributes:
        name: "query" or "gallery".
        ids: of n images.
        sha256: n digests of their published bytes.
        load: from an id to its image.
        are_files: whether an id is the image's path below the data set's root.
    """

    name: str
    ids: Sequence[str]
    sha256: Sequence[str]
    load: Load
    are_files: bool


class PartEncoder:
    """An encoder file, opened once for all parts of the split.

    Attributes:
        image_size: pixels a side of its input, for which images are loaded.
    """

    def __init__(
        self,
        path: Path,
        embeddings: Embeddings,
        *,
        split: Mapping[str, Any],
        device: str,
        threads: int,
        batch: int,
        cache: Path,
        progress: Progress = no_progress,
    ) -> None:
        """Open the encoder.

        Args:
            path: the encoder file.
            embeddings: of the split.
            split: the header of the split.
            device: the device for images; embeddings are always encoded on the CPU.
            threads: cores to use; no code depends on it.
            batch: images or embeddings at a time; no code depends on it.
            cache: the folder for incomplete codes.
            progress: shows the images.

        Raises:
            CodesError: there is no such file, or it is no encoder.
            ConfigError: `threads` is below 1, or the device is not available.
            DataError: there are no embeddings.
        """
        self._split, self._embeddings, self._batch = split, embeddings, batch
        self._cache, self._progress = cache, progress
        self._encoder = Encoder(path, threads=threads, device=device)
        contract = self._encoder.contract
        self.image_size = contract.image_size
        self._is_cut = embeddings.are_of(contract, split_sha256=split["sha256"])
        if self._is_cut:
            self._head = cut.open_head(path)
            if self._encoder.device != "cpu":
                self._encoder = Encoder(path, threads=threads)

    def encode(self, part: Part) -> Path:
        """Encode a part into a folder of the cache; return the folder.

        Raises:
            CodesError: the embeddings do not give the codes of the images.
            DataError: an image can no longer be read.
        """
        plan = self._plan(part)
        writer = CodesWriter(self._cache / sha256_json(asdict(plan))[:16], plan)
        encode = self._from_embeddings(part) if self._is_cut else partial(self._from_images, part)
        for number, shard in writer.pending():
            entries = [
                Entry(id=part.ids[row], path=part.ids[row] if part.are_files else None, sha256=part.sha256[row])
                for row in shard
            ]
            codes, logits = encode(shard)
            if part.name == "query":
                write_logits(writer.directory, number, logits)
            writer.write(number, entries, codes)
        writer.finish()
        return writer.directory

    def _plan(self, part: Part) -> Plan:
        return Plan(
            encoder_identity=self._encoder.identity,
            bits=self._encoder.contract.bits,
            nested=self._encoder.contract.nested,
            images=len(part.ids),
            images_sha256=digest_ids(part.ids),
            shard_rows=SHARD_ROWS,
            notes={
                "data_set": self._split["data_set"],
                "split_sha256": self._split["sha256"],
                "part": part.name,
                "route": "embeddings" if self._is_cut else "images",
            },
        )

    def _from_embeddings(self, part: Part) -> Callable[[range], Encoded]:
        """Encode all embeddings and check a sample; return the function from rows to what they are encoded to."""
        embeddings = self._embeddings.read(part.name)
        codes, logits = cut.encode_embeddings(self._encoder, self._head, embeddings, batch=self._batch)
        load = partial(read_image, part.load)
        cut.prove(self._encoder, codes, part.ids, load=load, seed=self._split["seed"])
        return lambda shard: (codes[shard.start : shard.stop], logits[shard.start : shard.stop])

    def _from_images(self, part: Part, shard: range) -> Encoded:
        images = (read_image(part.load, part.ids[row]) for row in shard)
        shown = self._progress(images, desc="encode", total=len(shard))
        codes, logits = [], []
        for outputs in self._encoder.run_each(shown, batch=self._batch):
            if isinstance(outputs, UnreadableImage):
                raise outputs
            codes.append(outputs.code)
            logits.append(outputs.logit)
        return np.stack(codes), np.stack(logits)
