"""Inner activations: what the frozen lower part of a network makes of fixed views, computed once and kept on disk.

The upper part learns from them, so that an epoch decodes no image, draws no pixel and runs no lower layer.

An image has as many views as in the stage embed, and the same ones if the images are all training images. The files are
those of `nsh.training.views`, which continues after an interruption, in a folder named by everything they depend on.
Every epoch draws two of the views of each image. Knows no data set and no method.
"""

import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nsh.errors import ConfigError
from nsh.system.code import code_digest
from nsh.system.files import sha256_json
from nsh.system.progress import Progress
from nsh.system.threads import map_in_threads
from nsh.training.finetune.files import ImageFiles
from nsh.training.finetune.images import Pair
from nsh.training.finetune.order import Rows, space_evenly
from nsh.training.pairs import read_views
from nsh.training.reproducible import reproducible
from nsh.training.views import Embedder, embed_images, embed_views

LIMIT = 64 * 10**9
"""Largest size of all activations together, in bytes."""

_BATCH = 64  # views in one call of the lower part
_AHEAD = 3  # batches in work: the requested one and the next two
_TAG = 7  # separates these generators from others that are seeded with a seed and small numbers


@dataclass(frozen=True, kw_only=True)
class LowerPart:
    """The part of a network below the first block that learns.

    Attributes:
        network: images uint8 [n, S, S, 3] to inner activations float32 [n, C h w]; frozen.
        block: name of the first block that learns.
        shape: C, h and w of its input.
        views: augmented views of every image.
        seed: of these views.
        made_of: everything else that the activations of an image depend on, as JSON can represent it.
    """

    network: nn.Module
    block: str
    shape: Sequence[int]
    views: int
    seed: int
    made_of: Mapping[str, Any]

    @property
    def dim(self) -> int:
        """Numbers in the activations of a view."""
        return math.prod(self.shape)

    def identity(self) -> dict[str, Any]:
        """Everything that the activations of an image depend on."""
        return {"from": self.block, "views": self.views, "seed": self.seed, **self.made_of}


@dataclass(frozen=True, kw_only=True)
class Activations:
    """`nsh.training.finetune.images.Inputs` of the upper part.

    Attributes:
        files: the images.
        views: float16 [n, V, C h w], mapped from the disk.
        clean: float32 [m, C h w], of the clean images in `space_evenly(n)`.
    """

    files: ImageFiles
    views: NDArray[np.float16]
    clean: NDArray[np.float32]

    @classmethod
    def prepare(
        cls,
        files: ImageFiles,
        *,
        lower: LowerPart,
        cache: Path,
        device: torch.device,
        progress: Progress,
        say: Callable[[str], None],
    ) -> Self:
        """Compute what is missing in the folder of these images below `cache`, and open it.

        Raises:
            ConfigError: the activations are larger than `LIMIT`, or than the free space of the disk.
            DataError: an image cannot be read, or an activation is NaN or beyond float16's 65,504.
        """
        identity = {**lower.identity(), "images": [files.digest, list(files.ids), files.size, files.resample]}
        identity |= {"device": device.type, "torch": str(torch.__version__), "code": code_digest([__name__])}
        folder = cache / sha256_json(identity)[:16]
        views, clean = folder / "views.npy", folder / "clean.npy"
        _announce(files, lower, folder=folder, say=say)
        with reproducible(1):  # a thread a call, and `workers` calls at once: no activation depends on either number
            embedder = _open_embedder(files, lower, device)
            chosen = [files.ids[row] for row in space_evenly(len(files.ids))]
            embed_images(chosen, embedder=embedder, path=clean, progress=progress)
            embed_views(files.ids, embedder=embedder, views=lower.views, seed=lower.seed, path=views, progress=progress)
        lower.network.to("cpu")
        return cls(files=files, views=np.load(views, mmap_mode="r"), clean=np.load(clean))

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all images."""
        return self.files.ids

    def read_pairs(self, batches: Iterable[Rows], *, seed: int, epoch: int) -> Iterator[Pair]:
        """See `Inputs`; of an image that is its own partner the two views differ."""
        count, views, _ = self.views.shape
        generator = np.random.default_rng([seed, epoch, _TAG])
        first = generator.integers(views, size=(count,))
        second = (first + generator.integers(1, views, size=(count,))) % views

        def read(pairs: Rows) -> Pair:
            rows, partners = np.ascontiguousarray(pairs.T)
            seen = read_views(self.views, rows, first[rows])
            return torch.from_numpy(rows), seen, read_views(self.views, partners, second[partners])

        return map_in_threads(read, batches, threads=self.files.workers, ahead=_AHEAD)

    def read_clean(self, batches: Iterable[Rows]) -> Iterator[Tensor]:
        """See `Inputs`; only the images in `space_evenly(n)`."""
        places = {row: place for place, row in enumerate(space_evenly(len(self.ids)).tolist())}
        return (torch.from_numpy(self.clean[[places[row] for row in rows.tolist()]]) for rows in batches)


def _open_embedder(files: ImageFiles, lower: LowerPart, device: torch.device) -> Embedder:
    network = lower.network.to(device)

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            activations: NDArray[np.float32] = network(torch.from_numpy(images).to(device)).cpu().numpy()
        return activations

    return Embedder(
        load=files.load,
        embed=embed,
        dim=lower.dim,
        size=files.size,
        resample=files.resample,
        batch=_BATCH,
        workers=files.workers,
    )


def _announce(files: ImageFiles, lower: LowerPart, *, folder: Path, say: Callable[[str], None]) -> None:
    """Say how large the activations are, unless they are complete, and make sure that there is room for them."""
    images = len(files.ids)
    size = images * lower.views * lower.dim * 2 + len(space_evenly(images)) * lower.dim * 4
    folder.parent.mkdir(parents=True, exist_ok=True)
    there = sum(path.stat().st_size for path in folder.glob("*.npy"))
    if there >= size:
        return
    text = (
        f"{lower.block} learns from activations of shape {list(lower.shape)}: {2 * lower.dim:,} bytes a view in "
        f"float16, {size / 1e6:,.1f} MB for {lower.views} views of {images:,} images"
    )
    room = min(LIMIT, there + shutil.disk_usage(folder.parent).free)
    if size > room:
        raise ConfigError(
            f"train.finetune.from: found {text}; allowed are {LIMIT / 1e9:.0f} GB and what is free on the disk, here "
            f"{room / 1e6:,.1f} MB: choose a later block, or lower embed.views or split.train"
        )
    say(f"{text}, in {folder}")
