"""What the commands of this room share: their arguments, and how they begin and end. Knows no study."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from nsh.config import Params
from nsh.core.errors import TrainingError
from nsh.studies.cells import Cell, run_cells
from nsh.studies.workspace import SETTINGS, Workspace, prepare
from nsh.terminal import say


def open_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with what every study asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=SETTINGS, default="cifar10", help="what is measured on (default: cifar10)")
    parser.add_argument("--root", type=Path, help="your images: the tree or the archive of CIFAR-10")
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
    """`run_cells` as the arguments wish."""
    return run_cells(cells, workspace, jobs=arguments.jobs or params.compute.threads, say=say)


def raise_failures(failures: Sequence[str]) -> None:
    """End a study after it has written what there is.

    Raises:
        TrainingError: cells failed.
    """
    if failures:
        raise TrainingError("\n".join([f"{len(failures)} cells failed and are marked as missing:", *failures]))
