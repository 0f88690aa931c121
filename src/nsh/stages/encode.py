"""Encode: encoder.onnx of a pair -> its codes of query and gallery, as production encodes. Needs no torch."""

import shutil
from functools import partial

from nsh.data.inventory import is_inventory
from nsh.data.registry import Choice, open_chosen
from nsh.data.split import read_header, read_part
from nsh.export.encoding import Part, PartEncoder
from nsh.project.embeddings import Embeddings
from nsh.project.paths import PairFiles, Project
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress

PARTS = ("query", "gallery")


def encode_split(
    project: Project,
    files: PairFiles,
    *,
    data_set: Choice,
    device: str,
    threads: int,
    batch: int,
    progress: Progress = no_progress,
) -> None:
    """Encode query and gallery; unfinished codes wait in the cache of the folder that is written to.

    Args:
        project: its images, split and embeddings are read.
        files: of the pair; its encoder is read, its codes are written.
        data_set: params.yaml's block `dataset`.
        device: where the encoder runs, unless it starts from embeddings.
        threads: cores to use; no code depends on it.
        batch: images or embeddings at a time; no code depends on it.
        progress: shows the images.

    Raises:
        CodesError: there is no such encoder, or stored embeddings do not give its codes.
        DataError: the embeddings are not there, or an image cannot be read any more.
    """
    encoder = PartEncoder(
        files.encoder,
        Embeddings(project.embed),
        split=read_header(project.split),
        device=device,
        threads=threads,
        batch=batch,
        cache=Project(files.folder).cache("encode"),
        progress=progress,
    )
    load = partial(open_chosen(data_set, raw=project.raw).image, size=encoder.image_size)
    are_files = is_inventory(project.raw / data_set.name)
    made = {}
    for name in PARTS:
        rows = read_part(project.split, name)
        made[name] = encoder.encode(Part(name=name, ids=rows.ids, sha256=rows.sha256, load=load, are_files=are_files))
    with atomic_folder(files.codes) as folder:
        for name, path in made.items():
            shutil.move(path, folder / name)
