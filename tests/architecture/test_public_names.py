"""What a package offers in `__all__` is there, and documents import nothing but what is offered."""

import ast
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import nsh

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = [package.name for package in pkgutil.walk_packages(nsh.__path__, "nsh.") if package.ispkg]
OFFERING = [name for name in PACKAGES if hasattr(import_module(name), "__all__")]


def imports_on(page: Path) -> set[tuple[str, str]]:
    """(module, name) of every `from nsh... import name` in the page's Python."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)]
    pairs = [(str(node.module), alias.name) for node in nodes for alias in node.names]
    return {(module, name) for module, name in pairs if module.partition(".")[0] == "nsh"}


def offered(module: ModuleType) -> set[str]:
    public = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return set(getattr(module, "__all__", public))


@pytest.mark.parametrize("package", OFFERING)
def test_what_a_package_offers_is_there(package: str) -> None:
    module = import_module(package)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert not [name for name in module.__all__ if not hasattr(module, name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_imports_what_is_offered(page: Path) -> None:
    assert not [(module, name) for module, name in imports_on(page) if name not in offered(import_module(module))]


def test_production_is_documented_by_its_front_door() -> None:
    named = {name for module, name in imports_on(ROOT / "docs/python-api.md") if module == "nsh.serving"}
    assert named == set(nsh.serving.__all__)
    deeper = {module for page in PAGES for module, _ in imports_on(page) if module.startswith("nsh.serving.")}
    assert not deeper
