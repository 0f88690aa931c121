"""A split of noise with embeddings of its own, so that what is near and what is odd is known. No network makes them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.audit.audit import Audit, audit_split
from nsh.audit.finding import Limit
from nsh.data import registry
from nsh.data.imageset import ImageSet
from nsh.data.split import Rows, Split, read_header, write
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.files import write_json

CHECKS = ("near_duplicates", "relevant_share", "unmatched", "imbalance", "odd_sizes")
SIDE, DIM, TRAIN = 40, 24, 30
Build = Callable[..., tuple[Audit, ImageSet]]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Audits a project of noise: `build(names, copies=..., labels=..., sizes=..., limits=..., ...)`.

    `names` are the queries'; the gallery has 60 images. Query i is given the embedding of gallery image `copies[i]`,
    slightly turned. `labels` are rows of two classes for "query" and "gallery". `sizes` are of the first queries.
    """

    def build(
        names: Sequence[str] = ("q0.png", "q1.png", "q2.png", "q3.png"),
        *,
        copies: dict[int, int] | None = None,
        labels: dict[str, list[tuple[int, ...]]] | None = None,
        sizes: Sequence[tuple[int, int]] = (),
        unreadable: Sequence[tuple[str, str]] = (),
        **limits: Limit,
    ) -> tuple[Audit, ImageSet]:
        project, gallery = Project(tmp_path), [f"g{row:02}.png" for row in range(60)]
        parts = {"train": gallery[:TRAIN], "query": list(names), "gallery": gallery}
        _save_images([*names, *gallery], tmp_path / "images", sizes=sizes)
        classes = None if labels is None else ("cat", "dog")
        _write_split(project, parts, classes=classes, labels=labels, unreadable=list(unreadable))
        _write_embeddings(project, parts, copies=copies or {})
        chosen = {"name": "folder", "raw": project.raw, "root": tmp_path / "images"}
        registry.fetch(**chosen, say=lambda line: None)
        images = registry.open_images(**chosen, labels="none")
        limit = {name: limits.get(name, Limit()) for name in CHECKS}
        return audit_split(project, images, limits=limit, max_bad_share=0.5), images

    return build


def _save_images(names: Sequence[str], folder: Path, *, sizes: Sequence[tuple[int, int]]) -> None:
    random = np.random.default_rng(0)
    for row, name in enumerate(names):
        width, height = sizes[row] if row < len(sizes) else (SIDE, SIDE)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)


def _write_split(project: Project, parts, *, classes, labels, unreadable) -> None:
    labels = labels and {"train": labels["gallery"][:TRAIN], **labels}
    rows = {
        part: Rows(ids=ids, labels=labels and labels[part], sha256=["0" * 64] * len(ids)) for part, ids in parts.items()
    }
    split = Split(data_set="folder", classes=classes, seed=0, parts=rows, unreadable=unreadable, duplicates_dropped=2)
    write(split, project.split)


def _write_embeddings(project: Project, parts, *, copies: dict[int, int]) -> None:
    random, embeddings = np.random.default_rng(0), Embeddings(project.embed)
    arrays = {part: random.normal(size=(len(ids), DIM)).astype(np.float32) for part, ids in parts.items()}
    arrays["train"] = arrays["gallery"][:TRAIN]
    for query, gallery in copies.items():
        arrays["query"][query] = arrays["gallery"][gallery] + 0.05 * random.normal(size=DIM)
    project.embed.mkdir(parents=True)
    for part, array in arrays.items():
        np.save(embeddings.path(part), array)
    np.save(embeddings.views, arrays["train"][:, None].astype(np.float16))
    write_json(embeddings.header_path, {"split_sha256": read_header(project.split)["sha256"], "image_size": 32})
