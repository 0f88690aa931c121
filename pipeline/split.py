"""Stage split: params.yaml and data/raw -> data/split (see `nsh.data.draw` for the protocol)."""

from nsh.config import read_params
from nsh.data.classes import check_classes, describe_classes
from nsh.data.draw import Sizes, draw
from nsh.data.registry import open_chosen
from nsh.data.split import read_header, write
from nsh.data.take import TAKES
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.terminal import show_progress, take_no_arguments


def main() -> None:
    """Draw train, query and gallery and write them."""
    params, project = read_params(), Project()
    split = params.split
    images = open_chosen(params.dataset, raw=project.raw)
    check_classes(images)
    print(f"{params.dataset.name}: {describe_classes(images)}")
    sizes = Sizes(train=split.train, gallery=split.gallery, query=split.query)
    drawn = draw(
        images,
        sizes,
        seed=split.seed,
        take=TAKES[split.draw],
        max_bad_share=split.max_bad_share,
        threads=params.compute.threads,
        progress=show_progress,
    )
    write(drawn, project.split)
    header = read_header(project.split)
    counts = ", ".join(f"{count} {part}" for part, count in header["counts"].items())
    print(
        f"split: {counts}; {header['unreadable']} unreadable images and {header['duplicates_dropped']} duplicates of "
        f"queries left out; sha256 {header['sha256'][:12]}"
    )


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
