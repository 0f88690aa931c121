"""An index that another one replaces: it can be read for ever, and can no longer be changed.

A link in its folder names the address that everybody uses. Once that address leads to another index, a writer that
still holds this one is refused, instead of writing where nobody will look. Whoever replaces an index moves the address
inside a writer's transaction (`database.writing`), so that every change is either before or refused.
"""

import os
from pathlib import Path

from nsh.errors import IndexReplaced
from nsh.system.files import atomic_link

ADDRESS = "address"


def set_address(folder: Path, address: Path) -> None:
    """Let changes of the index in `folder` depend on whether `address` leads to it."""
    atomic_link(folder / ADDRESS, os.path.relpath(address, folder))


def clear_address(folder: Path) -> None:
    """Allow changes of the index in `folder`, although its address leads to another one."""
    if has_address(folder):
        atomic_link(folder / ADDRESS, ".")


def has_address(folder: Path) -> bool:
    """Whether the index ever got an address."""
    return (folder / ADDRESS).is_symlink()


def check_address(folder: Path) -> None:
    """Make sure that no other index has replaced the one in `folder`.

    Raises:
        IndexReplaced: one has.
    """
    if has_address(folder) and (folder / ADDRESS).resolve() != folder.resolve():
        raise IndexReplaced(
            f"another index has replaced {folder}, and nothing was changed: use the one at "
            f"{(folder / ADDRESS).resolve()}, with its encoder"
        )
