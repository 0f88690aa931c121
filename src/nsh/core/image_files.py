"""The image files below a folder, by their names: one rule for training and production. Opens no file.

The following are left out and counted by reason: hidden files and folders (`.git`, `.thumbnails`, `._1.jpg`, ...),
folders that other programs fill with thumbnails or deleted files (`FOREIGN`), linked folders, names that are not UTF-8,
files whose name does not end like an image's, and what the user excludes. Decoding shows later whether a file holds an
image.
"""

# There may be millions of names, so they are strings; they are never resolved, because a link's own name is the id.
# ruff: noqa: PTH114, PTH118, PTH122

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from unicodedata import normalize

from nsh.errors import ConfigError

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".avif", ".avifs"),
)
"""Suffixes of image files, in upper or lower case: the formats that `nsh.core.preprocess` decodes."""

FOREIGN = (
    *("@eaDir", "#recycle", "#snapshot", "@Recycle", "@Recently-Snapshot", "@tmp", "__MACOSX", "iPod Photo Cache"),
    *("$RECYCLE.BIN", "RECYCLER", "System Volume Information", "lost+found", "Network Trash Folder", "Temporary Items"),
    *("Lightroom Previews.lrdata", "Lightroom Smart Previews.lrdata"),
)
"""Folders of other programs, in upper or lower case: of Synology, QNAP, macOS, Windows, Linux and Lightroom."""

NO_IMAGE = "files that are no images by name"
UNREADABLE = "folders that cannot be read"

_FOREIGN = {name.casefold(): name for name in FOREIGN}


class Exclude:
    """Globs of file and folder names, or of paths below the root, that the user leaves out.

    A glob without a slash matches files and folders of that name at any depth; a glob with a slash matches paths from
    the root. `*` matches within a name, `**` across names. A folder is left out with its content.

    Examples:
        >>> exclude = Exclude(["*.gif", "raw/**"])
        >>> exclude("beach/1.gif"), exclude("raw/1.jpg"), exclude("beach/raw/1.jpg")
        (True, True, False)
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        """Parse the globs.

        Raises:
            ConfigError: a glob is empty, or leads out of the root.
        """
        self._patterns = [_parse(glob) for glob in globs]

    def __call__(self, path: str) -> bool:
        """Whether a posix path below the root, or one of its parent folders, is left out."""
        if not self._patterns:
            return False
        parts = normalize("NFC", path).split("/")
        beginnings = [parts[:length] for length in range(1, len(parts) + 1)]
        return any(_matches(beginning, pattern) for pattern in self._patterns for beginning in beginnings)


def is_image(name: str) -> bool:
    """Whether a file's name ends like an image's.

    Examples:
        >>> is_image("beach/0001.JPG"), is_image("notes.txt")
        (True, False)
    """
    return os.path.splitext(name)[1].lower() in SUFFIXES


def is_utf8(name: str) -> bool:
    r"""Whether a name from the file system can be written as UTF-8.

    Examples:
        >>> is_utf8("café.jpg"), is_utf8(os.fsdecode(b"caf\xe9.jpg"))  # the second is Latin-1
        (True, False)
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def walk(folder: str, *, root: str, exclude: Exclude, left_out: Counter[str]) -> Iterator[str]:
    """Paths of all files below `folder`, images or not, that are not left out; in any order.

    Args:
        folder: an absolute path.
        root: the folder that the globs of `exclude` are relative to.
        exclude: the user's globs.
        left_out: counts what is left out, by reason.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> left_out = Counter()
        >>> with TemporaryDirectory() as root:
        ...     for name in ("a.jpg", "b.gif", ".hidden"):
        ...         Path(root, name).touch()
        ...     [Path(path).name for path in walk(root, root=root, exclude=Exclude(["*.gif"]), left_out=left_out)]
        ['a.jpg']
        >>> describe(left_out)
        'left out: 1 excluded files, 1 hidden files'
    """

    def note(error: OSError) -> None:
        left_out[UNREADABLE] += 1

    for here, subfolders, files in os.walk(folder, onerror=note):
        below = "" if here == root else os.path.relpath(here, root) + "/"
        reasons = {name: "excluded folders" if exclude(below + name) else _of_folder(here, name) for name in subfolders}
        reasons |= {name: "excluded files" if exclude(below + name) else _of_name(name) for name in files}
        left_out.update(reason for reason in reasons.values() if reason)
        subfolders[:] = [name for name in subfolders if not reasons[name]]
        yield from (os.path.join(here, name) for name in files if not reasons[name])


def describe(left_out: Counter[str]) -> str:
    """Describe what was left out.

    Examples:
        >>> describe(Counter({"hidden files": 2})), describe(Counter())
        ('left out: 2 hidden files', 'left out: nothing')
    """
    return "left out: " + (", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "nothing")


def _of_folder(here: str, name: str) -> str:
    """The reason why a folder is left out; empty if it is not."""
    if name.startswith("."):
        return "hidden folders"
    if name.casefold() in _FOREIGN:
        return f"{_FOREIGN[name.casefold()]} folders"
    return "linked folders" if os.path.islink(os.path.join(here, name)) else _of_name(name)


def _of_name(name: str) -> str:
    if name.startswith("."):
        return "hidden files"
    return "" if is_utf8(name) else "names that are not UTF-8"


def _parse(glob: str) -> tuple[str, ...]:
    parts = tuple(part for part in normalize("NFC", glob).split("/") if part not in ("", "."))
    if not parts or ".." in parts:
        raise ConfigError(
            f"found {glob!r} to exclude: allowed are globs of names (*.gif, thumbs) and of paths below the folder "
            "(raw/**/old)"
        )
    return parts if "/" in glob.rstrip("/") else ("**", *parts)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
