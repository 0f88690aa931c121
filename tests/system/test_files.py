import errno
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.system.files import atomic_path, read_json, sha256_bytes, sha256_file, sha256_json, write_json, write_text

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_atomic_path_makes_folders_and_leaves_one_file(tmp_path):
    target = tmp_path / "a" / "b.bin"
    with atomic_path(target) as partial:
        assert partial.parent == target.parent
        partial.write_bytes(b"whole")
        assert not target.exists()
    assert contents(target.parent) == {"b.bin": b"whole"}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), SystemExit(143)])
def test_a_failed_write_leaves_what_was_there(tmp_path, error):
    target = tmp_path / "b.bin"
    target.write_bytes(b"old")

    def write():
        with atomic_path(target) as partial:
            partial.write_bytes(b"ha")
            raise error

    with pytest.raises(type(error)):
        write()
    assert contents(tmp_path) == {"b.bin": b"old"}


def test_a_block_that_writes_nothing_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "b.bin"):
        pass
    assert contents(tmp_path) == {}


def test_text_is_utf8(tmp_path):
    write_text(tmp_path / "日本 語.txt", "grün\n")
    assert (tmp_path / "日本 語.txt").read_bytes() == "grün\n".encode()


def test_json_keeps_order_and_ends_in_a_newline(tmp_path):
    write_json(tmp_path / "a.json", {"z": 1, "a": ["ü", 0.1]})
    assert (tmp_path / "a.json").read_bytes() == '{\n  "z": 1,\n  "a": [\n    "ü",\n    0.1\n  ]\n}\n'.encode()


@given(documents)
def test_json_comes_back_as_it_was(tmp_path_factory, document):
    path = tmp_path_factory.getbasetemp() / "document.json"
    write_json(path, {"document": document})
    assert read_json(path) == {"document": document}
    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_json_refuses_what_is_not_finite_and_keeps_the_old_file(tmp_path, value):
    write_json(tmp_path / "a.json", {"loss": 1.0})
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": value})
    assert contents(tmp_path) == before


def test_digests_are_sha256_of_the_content(tmp_path):
    assert sha256_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    content = bytes(range(256)) * 5000
    (tmp_path / "large.bin").write_bytes(content)
    assert sha256_file(tmp_path / "large.bin") == sha256_bytes(content) == hashlib.sha256(content).hexdigest()


def test_the_digest_of_a_value_is_of_its_json_with_keys_in_order():
    assert sha256_json({"b": [1, None], "a": 0.5}) == sha256_bytes(b'{"a": 0.5, "b": [1, null]}')
