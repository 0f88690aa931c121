"""The digest follows the code that a result depends on, and nothing else."""

import ast
from pathlib import Path

import grimp
import pytest

from nsh.methods import METHODS
from nsh.system import code
from nsh.system.code import NO_RESULT, code_digest, reached


def closure(graph, roots):
    """By another library: what the roots import, directly or not, apart from what changes no result."""
    found, waiting = set(), [root for root in roots if root not in NO_RESULT]
    while waiting:
        module = waiting.pop()
        found.add(module)
        following = graph.find_modules_directly_imported_by(module) - found - set(NO_RESULT) - {"nsh"}
        waiting += following
    return found


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("nsh", "pipeline", cache_dir=None)


@pytest.mark.parametrize("method", METHODS)
def test_the_code_of_an_encoder_is_what_its_imports_reach(graph, method):
    roots = ["nsh.export.joined", f"nsh.methods.{method}"]
    # A package counts here where it is named in an import, there where a name is taken from it: markers have no code.
    found = {name for name in reached(roots) if not is_empty(name)}
    assert found == {name for name in closure(graph, roots) if not is_empty(name)}
    assert not [name for name in found if name.startswith("nsh.methods.") and name.split(".")[-1] in others(method)]


def test_all_rooms_that_make_an_encoder_count():
    rooms = {name.split(".")[1] for name in reached(["nsh.export.joined", "nsh.methods.nsh"])}
    wanted = {"backbones", "core", "export", "methods", "objectives", "project", "serving", "system"}
    assert rooms == wanted | {"errors", "ranges"}


def others(method):
    return set(METHODS) - {method}


def is_empty(module):
    tree = ast.parse(code._file(module).read_text())
    return all(isinstance(node, ast.Expr) for node in tree.body)


def test_the_code_of_a_stage_knows_neither_methods_nor_parameters():
    found = reached([Path("pipeline/embed.py")])
    assert "nsh.training.views" in found
    assert not [name for name in found if name.startswith(("nsh.methods", "nsh.config", "nsh.tracking"))]


def write(path, text):
    """As another process would find it."""
    path.write_text(text)
    code._read.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A source tree of two modules."""
    monkeypatch.setattr(code, "SOURCE", tmp_path)
    (tmp_path / "nsh").mkdir()
    (tmp_path / "nsh/one.py").write_text(
        '"""One."""\n\nfrom nsh import two\n\n\ndef add(a, b):\n    return two.plus(a, b)\n'
    )
    (tmp_path / "nsh/two.py").write_text("def plus(a, b):\n    return a + b\n")
    (tmp_path / "nsh/other.py").write_text("x = 1\n")
    return tmp_path / "nsh"


def test_comments_docstrings_and_layout_do_not_count(package):
    before = code_digest(["nsh.one"])
    text = (
        '# why\n"""Another."""\n\nfrom nsh import two\n\ndef add(a, b):\n    """Add."""\n    return two.plus(a,  b)\n'
    )
    write(package / "one.py", text)
    assert code_digest(["nsh.one"]) == before


@pytest.mark.parametrize(
    ("name", "old", "new", "counts"),
    [
        ("one", "plus(a, b)", "plus(b, a)", True),
        ("two", "a + b", "a - b", True),
        ("other", "x = 1", "x = 2", False),
    ],
)
def test_code_counts_where_it_is_reached(package, name, old, new, counts):
    before, path = code_digest(["nsh.one"]), package / f"{name}.py"
    write(path, path.read_text().replace(old, new))
    assert (code_digest(["nsh.one"]) != before) is counts
