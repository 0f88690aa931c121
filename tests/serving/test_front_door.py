"""`from nsh.serving import ...` gives what production's users need, and loads no more than was asked for."""

import subprocess
import sys

import pytest

import nsh.serving
from nsh.serving import encoder, index

LOADED = """
import sys
before = set(sys.modules)
{}
print(*sorted(set(sys.modules) - before))
"""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh Python loads for the statement."""
    command = [sys.executable, "-c", LOADED.format(statement)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_every_name_is_what_its_module_has() -> None:
    assert nsh.serving.Encoder is encoder.Encoder
    assert (nsh.serving.Filter, nsh.serving.Hit, nsh.serving.Index) == (index.Filter, index.Hit, index.Index)
    assert set(nsh.serving.__all__) <= set(dir(nsh.serving))


def test_a_name_that_is_not_there_is_missed_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'nsh\.serving' has no attribute 'Indx'"):
        nsh.serving.Indx  # noqa: B018


def test_the_package_alone_loads_nothing() -> None:
    assert loaded_by("import nsh.serving") == {"nsh", "nsh.serving"}


def test_who_encodes_does_not_load_the_index() -> None:
    loaded = loaded_by("from nsh.serving import Encoder")
    assert "nsh.serving.encoder" in loaded
    assert not loaded & {"nsh.serving.index", "faiss", "sqlite3", "torch", "onnx", "mlflow", "dvc"}


def test_who_searches_loads_no_network() -> None:
    loaded = loaded_by("from nsh.serving import Filter, Hit, Index")
    assert "nsh.serving.index.snapshot" in loaded
    assert not loaded & {"nsh.serving.encoder", "onnxruntime", "torch", "onnx", "mlflow", "dvc"}
