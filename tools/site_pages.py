"""A hook of mkdocs (`make docs`): adds pages from outside docs/ to the site, and corrects the links between both.

README, CONTRIBUTING and CHANGELOG stay in the root, where readers of the code expect them; DVC writes reports/.
"""

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "NOTICE": "notice.md",
    "params.yaml": "reference/params.md",
    "reports/results.md": "default-run.md",
}
"""Files outside docs/, and the pages they become."""

PICTURES = "reports/*.png"

_LINK = re.compile(r"\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
_FETCHED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(https?:[^"]+)"')


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add what lies outside docs/."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=as_markdown(source)))
    for picture in ROOT.glob(PICTURES):
        files.append(File.generated(config, picture.relative_to(ROOT).as_posix(), abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """Lead the page's links to where their targets are on the site."""
    place = page.file.src_uri
    source = next((source for source, target in PAGES.items() if target == place), DOCS + place)
    return relink(markdown, source=source, place=place)


def on_post_page(output: str, page: "Page", **_: object) -> str:
    """Refuse a page that fetches something from elsewhere when it is read.

    Raises:
        PluginError: it does; the build fails.
    """
    from mkdocs.exceptions import PluginError

    if found := fetched(output):
        raise PluginError(f"{page.file.src_uri} fetches {', '.join(found)}: keep it in docs/")
    return output


def as_markdown(source: str) -> str:
    """The text of a file as Markdown; a file that is none is shown as it is."""
    text = (ROOT / source).read_text(encoding="utf-8")
    language = Path(source).suffix.removeprefix(".") or "text"
    return text if language == "md" else f"# {source}\n\n```{language}\n{text}\n```\n"


def relink(markdown: str, *, source: str, place: str) -> str:
    """Turn links between files of the project into links between pages of the site.

    Args:
        markdown: a page's text.
        source: the page's file, relative to the project.
        place: its place on the site, relative to docs/.
    """

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        there = PAGES.get(target, target.removeprefix(DOCS))
        return f"]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{link[2] or ''})"

    return _LINK.sub(lead, markdown)


def fetched(html: str) -> list[str]:
    """Addresses of other hosts that a browser asks for when it shows the page; links that a reader follows are none."""
    return _FETCHED.findall(html)
