"""An empty index."""

import pytest

from nsh.serving.index import Index

ENCODER = "a" * 64


@pytest.fixture
def folder(tmp_path):
    Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    return tmp_path / "index"
