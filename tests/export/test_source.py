"""The digest follows the code that makes encoders, and nothing else."""

from pathlib import Path
from types import ModuleType

import pytest

from nsh.export.source import source_sha256


@pytest.fixture
def modules(tmp_path):
    made = {}
    for name in (
        "nsh.core.codes",
        "nsh.system.kernels",
        "nsh.project.paths",
        "nsh.methods.itq",
        "nsh.reports.tables",
        "nsh.corelike",
        "numpy.core.codes",
        "nsh",
    ):
        module = ModuleType(name)
        path = tmp_path / f"{name}.py"
        path.write_text("x = 1\n")
        module.__file__ = str(path)
        made[name] = module
    made["builtins"] = ModuleType("builtins")  # has no file
    return made


def edit(module: ModuleType) -> None:
    Path(module.__file__).write_text("x = 2\n")


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("nsh.core.codes", True),
        ("nsh.system.kernels", True),
        ("nsh.project.paths", True),
        ("nsh.methods.itq", True),
        ("nsh.reports.tables", False),
        ("nsh.corelike", False),
        ("numpy.core.codes", False),
        ("nsh", False),
    ],
)
def test_only_rooms_that_make_encoders_count(modules, name, counts):
    before = source_sha256(modules)
    edit(modules[name])
    assert (source_sha256(modules) != before) == counts


def test_the_order_of_imports_does_not_count(modules):
    assert source_sha256(modules) == source_sha256(dict(reversed(modules.items())))


def test_a_method_that_is_not_loaded_does_not_count(modules, tmp_path):
    before = source_sha256(modules)
    del modules["nsh.methods.itq"]
    after = source_sha256(modules)
    assert after != before
    (tmp_path / "nsh.methods.itq.py").write_text("changed")
    assert source_sha256(modules) == after
