"""docs/results.md, a page of sections that several commands write, and what lies in files beside it. Knows no study."""

import re
import subprocess
from pathlib import Path
from typing import Any

from nsh.reports.summary import Summary
from nsh.studies.setting import SETTINGS
from nsh.system.files import write_bytes, write_text

PAGE, RAW = Path("docs/results.md"), Path("docs/results")
STUDIES = ("estimate", "ablation", "sweep", "figures")
SECTIONS = tuple(name for setting in SETTINGS for name in (setting, *(f"{setting}-{study}" for study in STUDIES)))
MISSING = "missing"
CHANGED = "+"
SOURCES = ("src", "pipeline", "params.yaml")
_HEAD = """# Results

Every method on one backbone, one split and one evaluator. Each section is written by the command it names
(`nsh.studies`). Codes are made by an exported encoder, as in [the report of a run](../reports/results.md). The raw
figures are in `docs/results/`, each trial with the commit at which it was measured. What a figure means is said
in [decision 7](decisions/0007-what-a-metric-means.md), what was tried on the way in [experiments](experiments.md).
"""


def write_section(name: str, text: str, *, page: Path = PAGE) -> None:
    """Put `text` in the place of the section `name` (of `SECTIONS`) and leave the others as they are."""
    sections = _read_sections(page) | {name: text.strip()}
    parts = [f"<!-- {key} -->\n\n{sections[key]}\n" for key in SECTIONS if key in sections]
    write_text(page, "\n".join([_HEAD, *parts]))


def write_picture(name: str, png: bytes, *, caption: str) -> str:
    """Write docs/results/<name>.png; the Markdown that shows it on the page."""
    path = RAW / f"{name}.png"
    write_bytes(path, png)
    return f"![{caption}]({path.relative_to(PAGE.parent).as_posix()})\n\n*{caption}*"


def mean_text(summary: Summary[Any] | None, name: str, *, seeds: int) -> str:
    """A figure over the seeds with its spread; how many there are where it is not the `seeds` that there should be."""
    if summary is None:
        return MISSING
    deviation = summary.deviation(name)
    text = f"{summary.mean(name):.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")
    return text if summary.seeds == seeds else f"{text} ({summary.seeds} of {seeds} seeds)"


def made_with(command: str) -> str:
    """The sentence that says how to make a section again, and with which code it was made."""
    made = commit()
    if not made:
        return f"Made with `{command}`, outside of git."
    changed = " and changes that were not committed" if made.endswith(CHANGED) else ""
    return f"Made with `{command}` at commit `{made.removesuffix(CHANGED)}`{changed}."


def commit() -> str:
    """The commit that is checked out, with `CHANGED` behind it where code is not committed; nothing outside of git."""
    found = _git("rev-parse", "--short=12", "HEAD")
    return f"{found}{CHANGED}" if found and _git("status", "--porcelain", "--", *SOURCES) else found


def _read_sections(page: Path) -> dict[str, str]:
    if not page.exists():
        return {}
    pieces = re.split(r"^<!-- ([\w-]+) -->$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""
