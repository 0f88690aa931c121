"""Arguments of the studies' commands, and what every command does first and last. Imports no study."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from nsh.config import Params
from nsh.errors import TrainingError
from nsh.reports.summary import Summary
from nsh.studies.record import Line, key_of, read_record, record_of, select
from nsh.studies.runner import run_trials
from nsh.studies.setting import SETTINGS, Setting, data_set_of, prepare
from nsh.studies.trials import Trial
from nsh.terminal import say

DEFAULT = "cifar10"  # of the settings
Key = TypeVar("Key")
Groups = Mapping[Key, Sequence[Trial]]
"""Trials that differ by seed alone, from 0 up, by what a study calls them."""


def open_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments of every study."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--setting", choices=SETTINGS, default=DEFAULT, help="data set and backbone (default: %(default)s)"
    )
    parser.add_argument("--root", type=Path, help="your images: the tree or the archive of CIFAR-10")
    return parser


def open_measuring_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser for a study that measures trials."""
    parser = open_parser(description)
    parser.add_argument("--jobs", type=_count, help="trials at once, a thread each (default: compute.threads)")
    parser.add_argument("--seeds", type=_count, help="training seeds, from 0 up")
    parser.add_argument("--missing", action="store_true", help="measure only what docs/results/<setting>.csv lacks")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"found {count}, allowed is 1 or more")
    return count


def open_setting(arguments: argparse.Namespace, params: Params) -> Setting:
    """The setting that the arguments name, embedded."""
    return prepare(arguments.setting, SETTINGS[arguments.setting], params, root=arguments.root)


def run(trials: Sequence[Trial], setting: Setting, arguments: argparse.Namespace, params: Params) -> list[str]:
    """Run the trials that differ, seed by seed, as `--jobs` and `--missing` of the arguments say."""
    recorded = {line.key for line in read_record(record_of(setting))} if arguments.missing else set()
    different = [trial for place, trial in enumerate(trials) if trial not in trials[:place]]
    wanted = [trial for trial in different if key_of(trial, setting) not in recorded]
    in_order = sorted(wanted, key=lambda trial: trial.seed)
    return run_trials(in_order, setting, jobs=arguments.jobs or params.compute.threads, say=say)


def summarise_groups(
    make_groups: Callable[[int], Groups[Key]], lines: Sequence[Line], setting: Setting, *, seeds: int
) -> tuple[dict[Key, Summary[Line]], int]:
    """What is measured of a study's groups, and over how many seeds.

    Trials with the parameters of params.yaml belong to the table too, so they do not raise the number of seeds.

    Args:
        make_groups: the groups, of a number of seeds.
        lines: of the record.
        setting: where they were measured.
        seeds: as many as were asked for; more are shown where a trial with other parameters is measured for more.

    Returns:
        A summary of each group of which something is measured, and the number of seeds.
    """
    most = max([seeds, *(line.seed + 1 for line in lines)])
    groups = make_groups(most)
    changed = [trial for trials in groups.values() for trial in trials if trial.changed]
    seeds = max([seeds, *(line.seed + 1 for line in select(lines, changed, setting))])
    found = {key: select(lines, trials[:seeds], setting) for key, trials in groups.items()}
    return {key: Summary(group) for key, group in found.items() if group}, seeds


def make_call(target: str, setting: str, *, seeds: int | None = None) -> str:
    """The command that makes a section again."""
    named = "" if setting == DEFAULT else f" SETTING={setting}"
    images = " ROOT=<CIFAR-10>" if data_set_of(setting) == "cifar10" else ""
    return f"make {target}{named}{images}" + ("" if seeds is None else f" SEEDS={seeds}")


def raise_failures(failures: Sequence[str]) -> None:
    """End a study after it has written what there is.

    Raises:
        TrainingError: trials failed.
    """
    if failures:
        raise TrainingError("\n".join([f"{len(failures)} trials failed and are marked as missing:", *failures]))
