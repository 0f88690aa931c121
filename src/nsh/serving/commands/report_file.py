"""The file that a command will write when its work is done. Knows nothing of what it shows."""

from pathlib import Path

from nsh.errors import ConfigError
from nsh.system.files import try_to_write

PAGE = "<!doctype html"


def try_report(report: Path, *, kind: str = "HTML page", beginning: str = PAGE) -> None:
    """Check, before long work, that a report can be written, and that it replaces nothing else than a report.

    Args:
        report: the file.
        kind: what such reports are called.
        beginning: of all such reports, whatever its case.

    Raises:
        ConfigError: there is a file of another kind, such as one of the images.
        OSError: it cannot be written.
    """
    try_to_write(report)
    if report.is_file() and not _may_replace(report, beginning.lower().encode()):
        raise ConfigError(f"{report} is there and is no {kind}: name another file for the report, or delete it")


def _may_replace(file: Path, beginning: bytes) -> bool:
    """Whether a file is such a report, or empty, as `mktemp` makes it."""
    with file.open("rb") as opened:
        return opened.read(len(beginning)).lower() in (beginning, b"")
