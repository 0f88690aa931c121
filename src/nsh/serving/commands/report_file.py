"""The HTML file that a command will write when its work is done. Knows nothing of what it shows."""

from pathlib import Path

from nsh.errors import ConfigError
from nsh.system.files import try_to_write

_PAGE = b"<!doctype html"


def try_report(report: Path) -> None:
    """Check, before long work, that a page can be written, and that it replaces nothing else than a page.

    Raises:
        ConfigError: there is a file that is no page, such as one of the images.
        OSError: it cannot be written.
    """
    try_to_write(report)
    if report.is_file() and not _is_page(report):
        raise ConfigError(f"{report} is there and is no HTML page: name another file for the report, or delete it")


def _is_page(file: Path) -> bool:
    """Whether a file is a page, or empty, as `mktemp` makes it."""
    with file.open("rb") as opened:
        return opened.read(len(_PAGE)).lower() in (_PAGE, b"")
