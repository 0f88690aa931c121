"""Writes a profile's values into params.yaml where nothing of the user's own is lost. See tools/use_profile.

params.yaml can be replaced if it is as committed, or as a profile made it. A profile's dataset.root may have been set
besides, because `nsh quickstart` sets it to the folder that it is given.
"""

import json
import subprocess
from contextlib import suppress
from pathlib import Path

import yaml

from nsh.config.profiles import Change, compose
from nsh.errors import ConfigError

PARAMS, PROFILES, TAKEN = Path("params.yaml"), Path("params"), Path(".cache/nsh/profile.yaml")


def list_profiles() -> dict[str, Path]:
    """The profiles' files by name."""
    return {path.stem: path for path in sorted(PROFILES.glob("*.yaml"))}


def read_committed() -> str:
    """The committed params.yaml, where the one that is there can be replaced.

    Raises:
        ConfigError: there is none, or the one that is there has changes of the user's own.
    """
    committed = git("show", f"HEAD:{PARAMS}").decode()
    if not committed:
        raise ConfigError(f"git knows no committed {PARAMS} here: there is nothing to change, and to lead back to")
    if not _can_be_had_again(PARAMS.read_bytes().decode(errors="replace"), committed):
        raise ConfigError(
            f"{PARAMS} has changes of your own: commit them, keep them with `cp {PARAMS} params/<name>.yaml`, or drop "
            f"them with `git checkout HEAD -- {PARAMS}` (those of `dvc exp run -S` stay in `dvc exp show`); then run "
            "the same command again"
        )
    return committed


def lay(profile: Path, committed: str) -> tuple[str, list[Change]]:
    """`compose` of a profile's file."""
    return compose(committed, profile.read_text(encoding="utf-8"), name=str(profile))


def with_root(params: str, root: object) -> str:
    """The text of params.yaml with another dataset.root."""
    return compose(params, json.dumps({"dataset": {"root": str(root)}}), name="dataset.root")[0]


def take(params: str) -> None:
    """Write params.yaml, and beside it what will be known later as no change of the user's own."""
    TAKEN.parent.mkdir(parents=True, exist_ok=True)
    for place in (TAKEN, PARAMS):
        place.write_text(params, encoding="utf-8")


def git(*arguments: str) -> bytes:
    """The output of git, empty where it fails or is not there."""
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""


def _can_be_had_again(content: str, committed: str) -> bool:
    if content == committed or (TAKEN.exists() and content == TAKEN.read_text(encoding="utf-8")):
        return True
    return any(_was_made_by(profile, committed, content) for profile in list_profiles().values())


def _was_made_by(profile: Path, committed: str, content: str) -> bool:
    with suppress(ConfigError, yaml.YAMLError, LookupError, TypeError):  # of a profile that is not asked for
        made = lay(profile, committed)[0]
        return content == made or content == with_root(made, yaml.safe_load(content)["dataset"]["root"])
    return False
