"""Stage encode: models/<method>-<bits>/encoder.onnx -> codes/<method>-<bits>/{query,gallery}, as production encodes."""

import shutil

from nsh.config import read_params
from nsh.data.inventory import is_inventory
from nsh.data.registry import open_images
from nsh.data.split import read_header, read_part
from nsh.export.encoding import Part, PartEncoder
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.system.folders import atomic_folder
from nsh.terminal import show_progress, take_pair

PARTS = ("query", "gallery")


def main() -> None:
    """Encode query and gallery."""
    pair = take_pair("Turn query and gallery into codes with models/<method>-<bits>.")
    params, project = read_params(), Project()
    files = project.of(pair)
    encoder = PartEncoder(
        files.encoder,
        Embeddings(project.embed),
        split=read_header(project.split),
        device=params.compute.device,
        threads=params.compute.threads,
        batch=params.encode.batch,
        cache=project.cache("encode"),
        progress=show_progress,
    )
    images = open_images(raw=project.raw, **params.dataset.model_dump(exclude={"exclude"}))
    are_files = is_inventory(project.raw / params.dataset.name)
    made = {}
    for name in PARTS:
        rows = read_part(project.split, name)
        part = Part(name=name, ids=rows.ids, sha256=rows.sha256, load=images.image, are_files=are_files)
        made[name] = encoder.encode(part)
    with atomic_folder(files.codes) as folder:
        for name, path in made.items():
            shutil.move(path, folder / name)


if __name__ == "__main__":
    run_stage(main)
