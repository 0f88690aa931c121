"""What the pages tell a reader to type is there: make's targets, profiles, settings; and so are the pages they name."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import nsh

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def find(pattern: str, page: Path) -> set[str]:
    return set(re.findall(pattern, page.read_text(), flags=re.MULTILINE))


@every_page
def test_the_targets_of_make_are_there(page: Path) -> None:
    targets = find(r"^([a-z-]+):", ROOT / "Makefile")
    assert find(r"(?:^|`)make ([a-z][a-z-]*)", page) <= targets


@every_page
def test_the_profiles_are_there(page: Path) -> None:
    profiles = {path.stem for path in (ROOT / "params").glob("*.yaml")} | {"default"}  # the committed params.yaml
    assert find(r"PROFILE=([\w-]+)", page) <= profiles


@every_page
def test_the_settings_are_there(page: Path) -> None:
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    for key in find(r"-S '?([\w.]+)=", page):
        block = params
        for name in key.split("."):
            assert name in block, f"{page.name} sets {key}"
            block = block[name]


@every_page
def test_the_pages_it_links_to_are_there(page: Path) -> None:
    links = {link.partition("#")[0] for link in find(r"\]\(([^)\s]+)\)", page) if "://" not in link}
    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_profile_is_told_of() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert not [path.stem for path in (ROOT / "params").glob("*.yaml") if f"PROFILE={path.stem}" not in text]


def test_the_newest_release_is_the_version_of_the_code_and_of_the_package() -> None:
    releases = re.findall(r"^## \[(\d[\w.]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == nsh.__version__ == version("nsh")
