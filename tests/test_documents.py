"""What the pages tell a reader to type is there: make's targets, profiles, settings; and so are the pages they name."""

import re
import runpy
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import nsh
from nsh.config.declarations import declared_methods
from nsh.serving.engines.milvus_address import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SITE = runpy.run_path(str(ROOT / "tools/site_pages.py"))
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
    profiles |= {f"tuned-{method}" for method in declared_methods()}  # `nsh tune` writes them
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


@every_page
def test_a_list_begins_after_a_blank_line(page: Path) -> None:
    """Or after a heading: the site's Markdown, unlike others, reads the list as a part of the paragraph else."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"^(?![-*] |\d+\. |#| ).+\n(?:[-*]|\d+\.) .*", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "place", "link", "on_the_site"),
    [
        ("README.md", "index.md", "docs/serving.md#over-http", "serving.md#over-http"),
        ("README.md", "index.md", "reports/retrieval.png", "reports/retrieval.png"),
        ("README.md", "index.md", "params.yaml", "reference/params.md"),
        ("reports/results.md", "default-run.md", "retrieval.png", "reports/retrieval.png"),
        ("docs/results.md", "results.md", "../reports/results.md", "default-run.md"),
        ("docs/decisions/0006-x.md", "decisions/0006-x.md", "../experiments.md", "../experiments.md"),
        ("docs/decisions/0006-x.md", "decisions/0006-x.md", "../../README.md", "../index.md"),
        ("docs/serving.md", "serving.md", "#over-http", "#over-http"),
        ("docs/serving.md", "serving.md", "https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_lead_to_the_same_page_on_the_site(source: str, place: str, link: str, on_the_site: str) -> None:
    assert SITE["relink"](f"[x]({link})", source=source, place=place) == f"[x]({on_the_site})"


def test_what_a_page_of_the_site_would_fetch_is_found() -> None:
    fetched = ['<script src="https://a.example/x.js">', '<link rel="stylesheet" href="http://b.example/x.css">']
    quiet = ['<a href="https://c.example/">', '<img alt="" src="reports/retrieval.png">', '<script src="../x.js">']
    assert SITE["fetched"]("".join(fetched + quiet)) == ["https://a.example/x.js", "http://b.example/x.css"]


def test_every_file_that_becomes_a_page_is_there() -> None:
    assert not [source for source in SITE["PAGES"] if not (ROOT / source).is_file()]


def test_a_service_of_compose_on_milvus_is_the_plain_one_with_another_index() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    plain, milvus = (compose["services"][name] for name in ("search", "search-on-milvus"))
    same = plain.keys() - {"build", "image", "environment", "ports"}
    assert {name: milvus[name] for name in same} == {name: plain[name] for name in same}
    address = parse(milvus["environment"]["NSH_INDEX"])
    assert address is not None
    assert address.uri == "http://milvus:19530"
    assert milvus["build"]["args"]["EXTRAS"] in (ROOT / "Dockerfile").read_text()
    volumes = {volume.partition(":")[0] for one in compose["services"].values() for volume in one["volumes"]}
    assert {name for name in volumes if name.isidentifier()} == compose["volumes"].keys()
    assert {one["source"] for one in compose["services"]["milvus"]["configs"]} == compose["configs"].keys()
