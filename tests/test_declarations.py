"""What is read off a method's file is what its class is, and params.yaml has it written out."""

import dataclasses
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
from pydantic import TypeAdapter

from nsh.config.declarations import declared_methods, read_declaration
from nsh.config.methods import write_defaults
from nsh.methods import METHODS

ROOT = Path(__file__).parents[1]


def described(cls: type) -> dict[str, tuple[object, object]]:
    """Range and default by parameter."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: (hints[field.name], field.default) for field in dataclasses.fields(cls)}


def test_the_registry_is_read_as_it_is() -> None:
    assert list(declared_methods().items()) == list(METHODS.items())


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_declared_as_it_is(method: str) -> None:
    cls = getattr(import_module(f"nsh.methods.{method}"), METHODS[method])
    block = read_declaration(method).block
    found = {
        field.name: (get_type_hints(block, include_extras=True)[field.name], getattr(block, field.name))
        for field in dataclasses.fields(block)
    }
    assert found == described(cls)
    assert cls() == cls(**dataclasses.asdict(block()))
    assert [parameter.name for parameter in read_declaration(method).parameters] == list(found)


def test_a_departure_from_the_paper_is_a_paragraph_of_the_docstring() -> None:
    assert read_declaration("sdc").departure == "15 epochs for 100"
    assert read_declaration("sdc").title == 'Ng et al., "Similarity Distribution Calibration", BMVC 2023'
    assert read_declaration("tbh").departure.endswith(
        "batches of 100 for 400; trained as published, it has an mAP of .531 at 32 bits on CIFAR-10"
    )
    assert read_declaration("itq").departure == ""


@pytest.mark.parametrize("method", METHODS)
def test_every_default_is_in_its_range(method: str) -> None:
    block = read_declaration(method).block
    assert TypeAdapter(block).validate_python(dataclasses.asdict(block())) == block()


def test_params_yaml_has_every_default_and_its_meaning(tmp_path: Path) -> None:
    """Where this fails: `nsh params defaults`."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    write_defaults(tmp_path / "params.yaml")
    assert (tmp_path / "params.yaml").read_text() == (ROOT / "params.yaml").read_text()


@pytest.mark.parametrize(
    ("head", "block", "tail"),
    [
        ("a: 1\n\n", "methods:  # mine\n\n  itq:\n    iterations: 3\n", "\n# next\nb: 2\n"),
        ("a: 1\n", "methods: {}\n", ""),
        ("a: 1\n", "", ""),
    ],
)
def test_all_else_of_a_params_yaml_stays(tmp_path: Path, head: str, block: str, tail: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(head + block + tail)
    write_defaults(path)
    assert path.read_text().startswith(f"{head}methods:\n  nsh:")
    assert path.read_text().endswith(f"    hidden: 512             # length of the hidden layer\n{tail}")
    assert "iterations: 50\n" in path.read_text()


def test_parameters_are_checked_without_torch() -> None:
    code = "import sys; from nsh.config import read_params; read_params(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
