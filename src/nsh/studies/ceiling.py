"""Retrieval by cosine similarity of a setting's embeddings: the figures without hashing. Computed once and kept."""

import numpy as np
import torch

from nsh.core.metrics import cosine_map
from nsh.data.split import read_part
from nsh.errors import DataError
from nsh.objectives.base import TrainingData
from nsh.objectives.closed_forms.whitened import WhitenedHead
from nsh.project.embeddings import Embeddings
from nsh.studies.protocol import K
from nsh.studies.setting import Setting
from nsh.system.code import code_digest
from nsh.system.files import read_json, write_json
from nsh.system.progress import Progress

DIRECTIONS = 16  # of the whitened embedding: more of them find worse neighbours
METHODS = ("cosine", f"cosine of {DIRECTIONS} directions whitened by views")
"""How similar two embeddings are; the second one is learned from training images, without labels."""

Ceiling = dict[str, dict[str, float]]
"""Figures by `METHODS`."""


def measure_ceiling(setting: Setting, *, progress: Progress) -> Ceiling:
    """The figures of `cosine_map` at `K`, of the embeddings and of their directions in which images differ most.

    They are rounded above the last bits that threads may move.

    Raises:
        DataError: the images have no labels.
    """
    path = setting.project.folder / "ceiling.json"
    identity = {"data": setting.digest, "code": code_digest([__name__]), "k": K}
    if path.exists() and (kept := read_json(path))["identity"] == identity:
        return dict(kept["figures"])
    figures = _measure(setting, progress=progress)
    write_json(path, {"identity": identity, "figures": figures})
    return figures


def _measure(setting: Setting, *, progress: Progress) -> Ceiling:
    query, gallery = (read_part(setting.project.split, part).labels for part in ("query", "gallery"))
    if query is None or gallery is None:
        raise DataError(f"the images of {setting.name} have no labels, so nothing says which results are right")
    embeddings = Embeddings(setting.project.embed)
    plain = [np.array(embeddings.read(part)) for part in ("query", "gallery")]
    whitened = _whiten(TrainingData(*embeddings.read_training()), plain)
    found = [cosine_map(sides[0], sides[1], query, gallery, k=K, progress=progress) for sides in (plain, whitened)]
    rounded = [{name: round(value, 6) for name, value in figures.items()} for figures in found]
    return dict(zip(METHODS, rounded, strict=True))


@torch.no_grad()
def _whiten(data: TrainingData, sides: list[np.ndarray]) -> list[np.ndarray]:
    """Embeddings float32 [n, d] in the first directions that `data` gives, float32 [n, DIRECTIONS] each."""
    head = WhitenedHead(data.dim, 1, hidden=1, directions=DIRECTIONS)
    head.fit_inputs(data)
    return [head.standardise(torch.from_numpy(side)).numpy() for side in sides]
