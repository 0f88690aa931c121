"""Production is tested with the small encoder that needs no torch to be made."""

import errno
import json
import os
from pathlib import Path

import pytest
from tests.protobuf import field

from nsh.core.contract import METADATA_KEY
from nsh.core.identity import read_contract

GOLDEN = Path(__file__).parents[1] / "golden" / "encoder.onnx"


@pytest.fixture(scope="session")
def encoder_path() -> Path:
    return GOLDEN


@pytest.fixture(scope="session")
def nested_path(tmp_path_factory) -> Path:
    """The same encoder of 12 bits, whose codes are nested at 8: the same graph, codes and identity."""
    content = GOLDEN.read_bytes()
    start = content.index(b'{"schema": ')
    former = content[start : content.index(b"}", start) + 1]
    text = json.dumps(json.loads(former) | {"nested": [8]}).encode()
    before, after = (field(14, field(1, METADATA_KEY.encode()) + field(2, contract)) for contract in (former, text))
    assert content.count(before) == 1
    path = tmp_path_factory.mktemp("nested") / "encoder.onnx"
    path.write_bytes(content.replace(before, after))
    assert read_contract(path.read_bytes(), name="nested").lengths == (8, 12)
    return path


@pytest.fixture
def forbid(monkeypatch):
    """A function that lets no folder of a name be read; root, to whom chmod forbids nothing, is refused too."""

    def forbid(name):
        scan = os.scandir

        def refuse(path):
            if Path(os.fsdecode(path)).name == name:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return scan(path)

        monkeypatch.setattr(os, "scandir", refuse)

    return forbid
