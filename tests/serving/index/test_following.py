"""An index follows a folder of codes."""

from pathlib import Path

import numpy as np
import pytest

from nsh.errors import CodesError
from nsh.serving.index import Index
from nsh.serving.index.following import Changes, follow

ENCODER = "a" * 64
CODES = np.arange(40, dtype=np.uint8).reshape(5, 8)
IDS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    made.add(IDS, CODES, metadata=[{"class": name} for name in IDS], encoder_identity=ENCODER)
    return made


def items(index: Index) -> dict[str, tuple[bytes, dict[str, str]]]:
    return {
        name: (code.tobytes(), metadata)
        for batch in index.batches()
        for name, code, metadata in zip(batch.ids, batch.codes, batch.metadata, strict=True)
    }


def test_what_differs_is_added_updated_and_removed(index: Index) -> None:
    ids, codes = ["f", "c", "b"], CODES[[0, 2, 4]]
    assert follow(index, ids, codes, encoder_identity=ENCODER) == Changes(added=1, updated=1, removed=3)
    assert items(index) == {
        "b": (CODES[4].tobytes(), {"class": "b"}),
        "c": (CODES[2].tobytes(), {"class": "c"}),
        "f": (CODES[0].tobytes(), {}),
    }


def test_what_is_the_same_changes_nothing(index: Index) -> None:
    version = index.version
    assert follow(index, IDS[::-1], CODES[::-1], encoder_identity=ENCODER) == Changes(0, 0, 0)
    assert index.version == version


@pytest.mark.parametrize("ids", [IDS, IDS[:2], ["f"]])
def test_codes_of_another_encoder_are_refused_and_nothing_goes(index: Index, ids: list[str]) -> None:
    with pytest.raises(CodesError, match="encoder"):
        follow(index, ids, CODES[: len(ids)], encoder_identity="b" * 64)
    assert len(index) == 5


def test_an_id_that_is_there_twice_is_refused_and_nothing_goes(index: Index) -> None:
    with pytest.raises(CodesError, match="'f' more than once"):
        follow(index, ["f", "f"], CODES[:2], encoder_identity=ENCODER)
    assert len(index) == 5
