"""What the commands of this room share: their arguments, and how they begin and end. Knows no study."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nsh.config import Params
from nsh.errors import TrainingError
from nsh.studies.cells import Cell, read_requests, read_results, run_cells
from nsh.studies.summary import Summary
from nsh.studies.workspace import SETTINGS, Workspace, prepare
from nsh.terminal import say

Key = TypeVar("Key")


def open_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with what every study asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=SETTINGS, default="cifar10", help="what is measured on (default: cifar10)")
    parser.add_argument("--root", type=Path, help="your images: the tree or the archive of CIFAR-10")
    return parser


def open_measuring_parser(description: str | None) -> argparse.ArgumentParser:
    """The same for a study that measures cells."""
    parser = open_parser(description)
    parser.add_argument("--jobs", type=_count, help="cells at once, a thread each (default: compute.threads)")
    parser.add_argument("--seeds", type=_count, help="training seeds, from 0 up")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"found {count}, allowed is 1 or more")
    return count


def open_workspace(arguments: argparse.Namespace, params: Params) -> Workspace:
    """The setting that the arguments name, embedded."""
    return prepare(arguments.setting, SETTINGS[arguments.setting], params, root=arguments.root)


def run(cells: Sequence[Cell], workspace: Workspace, arguments: argparse.Namespace, params: Params) -> list[str]:
    """`run_cells` as the arguments wish; cells that ask for the same are one."""
    return run_cells(_once(cells), workspace, jobs=arguments.jobs or params.compute.threads, say=say)


def seed_by_seed(groups: Iterable[Sequence[Cell]]) -> list[Cell]:
    """All cells of the groups, the first seed of all before the second of any."""
    return sorted((cell for group in groups for cell in group), key=lambda cell: cell.seed)


def read_summaries(groups: Mapping[Key, Sequence[Cell]], workspace: Workspace) -> dict[Key, Summary]:
    """What is measured of each group, whose cells differ by seed; groups without a measured cell are left out."""
    return {key: Summary(results) for key, cells in groups.items() if (results := read_results(cells, workspace))}


def read_lengths(workspace: Workspace) -> set[int]:
    """The code lengths of all cells that were ever measured here, whatever with."""
    return {request["bits"] for request in read_requests(workspace)}


def count_seeds_of_all(workspace: Workspace, *, least: int) -> int:
    """How many seeds, from 0 up, to look for: those that were ever measured here, and `least` at least."""
    return max([least, *(int(request["seed"]) + 1 for request in read_requests(workspace))])


def count_seeds(make_groups: Callable[[int], Mapping[Any, Sequence[Cell]]], workspace: Workspace, *, least: int) -> int:
    """How many seeds a study shows: `least`, and more where cells with changed parameters are measured for more.

    Cells without a change are the table's too, whose seeds are its own affair.

    Args:
        make_groups: the study's cells for a number of seeds.
        workspace: where.
        least: seeds that were asked for.
    """
    seeds = least
    while any(
        cell.changed and cell.seed == seeds and read_results([cell], workspace)
        for cells in make_groups(seeds + 1).values()
        for cell in cells
    ):
        seeds += 1
    return seeds


def make_call(target: str, setting: str, *, seeds: int | None = None) -> str:
    """The command that makes a section again."""
    images = " ROOT=<CIFAR-10>" if setting == "cifar10" else f" SETTING={setting}"
    return f"make {target}{images}" + ("" if seeds is None else f" SEEDS={seeds}")


def raise_failures(failures: Sequence[str]) -> None:
    """End a study after it has written what there is.

    Raises:
        TrainingError: cells failed.
    """
    if failures:
        raise TrainingError("\n".join([f"{len(failures)} cells failed and are marked as missing:", *failures]))


def _once(cells: Sequence[Cell]) -> list[Cell]:
    """Two processes must not measure into one folder."""
    different: list[Cell] = []
    for cell in cells:
        if all(cell.request != other.request for other in different):
            different.append(cell)
    return different
