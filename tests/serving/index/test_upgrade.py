"""An index of schema 1 becomes one of the present schema, or stays what it was."""

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from nsh.core.contract import PROVENANCE, EncoderContract
from nsh.core.identity import identity_of, identity_of_file
from nsh.errors import CodesError, IndexDamaged, IndexMissing, IndexUnusable
from nsh.serving.index import Index, upgrade, writer

SHA256, IDENTITY = "a" * 64, "b" * 64
GIVEN = {"encoder_sha256": SHA256, "encoder_identity": IDENTITY}

TABLES = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE version (
    number INTEGER PRIMARY KEY, items INTEGER NOT NULL,
    codes_sha256 TEXT NOT NULL, keys_sha256 TEXT NOT NULL, lists_sha256 TEXT);
CREATE TABLE item (key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE metadata (
    key INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key, name)) WITHOUT ROWID;
CREATE INDEX metadata_by_value ON metadata (name, value);
"""


def save(path, array):
    np.save(path, array)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def codes():
    return np.random.default_rng(0).integers(0, 256, (50, 8), dtype=np.uint8)


@pytest.fixture
def former(tmp_path, codes, monkeypatch):
    """An index as version 0.1 wrote it: 50 items with gaps between their keys, and files of an approximate backend."""
    monkeypatch.setattr(upgrade, "_STEP", 20)
    folder = tmp_path / "index"
    (folder / "snapshots").mkdir(parents=True)
    keys = np.arange(50, dtype=np.int64) * 3
    digests = [
        save(folder / "snapshots" / f"0000000007.{kind}.npy", rows) for kind, rows in (("codes", codes), ("keys", keys))
    ]
    (folder / "snapshots" / "0000000007.lists.faiss").write_bytes(b"lists")
    with closing(sqlite3.connect(folder / "index.sqlite")) as database, database:
        database.executescript(TABLES)
        settings = {"schema": "1", "bits": "64", "encoder_sha256": SHA256, "approximate_above": "10"}
        database.executemany("INSERT INTO setting VALUES (?, ?)", settings.items())
        database.execute("INSERT INTO version VALUES (7, 50, ?, ?, 'of lists')", digests)
        database.executemany("INSERT INTO item VALUES (?, ?)", [(3 * row, f"photo {row}") for row in range(50)])
        database.executemany(
            "INSERT INTO metadata VALUES (?, 'class', ?)", [(6 * row, str(row % 3)) for row in range(25)]
        )
    return folder


def check_converted(folder, codes):
    index = Index.open(folder)
    index.check()
    assert (len(index), index.version, index.bits, index.encoder_identity) == (50, 8, 64, IDENTITY)
    assert [path.name for path in folder.iterdir()] == ["index.sqlite"]
    hits = index.search(codes[:1], k=50)[0]
    assert {hit.id: hit.metadata for hit in hits} == {
        f"photo {row}": {} if row % 2 else {"class": str(row // 2 % 3)} for row in range(50)
    }
    np.testing.assert_array_equal(index.code_of("photo 17"), codes[17])
    index.add(["another"], codes[:1], encoder_identity=IDENTITY)
    assert [hit.id for hit in index.search_radius(codes[:1], radius=0)[0]] == ["photo 0", "another"]


def test_an_old_index_says_what_to_do(former):
    for use in (Index.open, lambda folder: writer.remove(folder, ["photo 1"])):
        with pytest.raises(IndexUnusable, match=r"of an older version: `nsh index upgrade .* --encoder encoder\.onnx`"):
            use(former)


@pytest.mark.parametrize("log", [False, True])
def test_it_is_converted_and_a_second_time_left_alone(former, codes, log):
    with closing(sqlite3.connect(former / "index.sqlite")) as connection:
        if log:
            connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(IndexUnusable, match="of an older version"):
        Index.open(former)
    upgrade.upgrade(former, **GIVEN)
    (former / "snapshots").mkdir()  # whoever was killed before the old codes were deleted
    upgrade.upgrade(former, **GIVEN)
    check_converted(former, codes)


def test_killed_on_the_way_it_is_the_old_index_and_can_be_converted(former, codes, monkeypatch):
    pid = os.fork()
    if pid == 0:
        add = writer.add

        def add_once(folder, ids, *arguments, **keywords):
            if ids[0] != "photo 0":
                os.kill(os.getpid(), signal.SIGKILL)
            return add(folder, ids, *arguments, **keywords)

        monkeypatch.setattr(writer, "add", add_once)
        upgrade.upgrade(former, **GIVEN)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    with pytest.raises(IndexUnusable, match="of an older version"):
        Index.open(former)
    upgrade.upgrade(former, **GIVEN)
    check_converted(former, codes)


def test_what_cannot_be_converted_stays(former, codes, tmp_path):
    with pytest.raises(IndexMissing):
        upgrade.upgrade(tmp_path / "nowhere", **GIVEN)
    with pytest.raises(CodesError, match="encoder file with sha256 aaaaaaaaaaaa, the one given has cccccccccccc"):
        upgrade.upgrade(former, encoder_sha256="c" * 64, encoder_identity=IDENTITY)
    kept = (former / "snapshots" / "0000000007.codes.npy").read_bytes()
    (former / "snapshots" / "0000000007.codes.npy").write_bytes(kept[:-1] + b"\0")
    with pytest.raises(IndexDamaged, match=r"0000000007\.codes\.npy is not the file that was written"):
        upgrade.upgrade(former, **GIVEN)
    (former / "snapshots" / "0000000007.codes.npy").write_bytes(kept)
    with closing(sqlite3.connect(former / "index.sqlite")) as database, database:
        database.execute("DELETE FROM item WHERE key = 60")
    with pytest.raises(IndexDamaged, match="do not belong together"):
        upgrade.upgrade(former, **GIVEN)
    assert sorted(path.name for path in former.iterdir()) == ["index.sqlite", "snapshots"]


def field(number, content):
    """One field of a protobuf message, shorter than 2 ** 14 bytes."""
    return bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7]) + content


def test_an_encoder_file_of_the_same_version_has_an_identity():
    """The one that the same graph has under the present contract, if its pixels are those of version 1."""
    provenance = dict.fromkeys(PROVENANCE, "unknown")
    scale = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    contract = EncoderContract(bits=8, image_size=96, resample="bilinear", preprocessing=1, **scale, **provenance)
    values = json.loads(contract.to_json())
    del values["identity"], values["preprocessing"], values["libraries"]  # fields of schema 2
    note = field(1, b"nsh") + field(2, json.dumps({**values, "schema": 1}).encode())
    graph = field(7, b"a graph")
    assert identity_of_file(graph + field(14, note), name="old.onnx") == identity_of(graph, contract)


def test_the_command_converts_it_with_its_encoder(former, encoder_path):
    with closing(sqlite3.connect(former / "index.sqlite")) as database, database:
        digest = hashlib.sha256(encoder_path.read_bytes()).hexdigest()
        database.execute("UPDATE setting SET value = ? WHERE name = 'encoder_sha256'", (digest,))
    command = [sys.executable, "-m", "nsh.cli", "index", "upgrade", former, "--encoder", encoder_path, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["items"], said["version"], said["metadata"]) == (50, 8, ["class"])
    assert said["encoder_identity"] == Index.open(former).encoder_identity
