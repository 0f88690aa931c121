"""Where an index lies: read-only beside a writer, on a full disk, damaged, on a network."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress

import numpy as np
import pytest

from nsh.errors import (
    CodesError,
    IndexBusy,
    IndexDamaged,
    IndexFull,
    IndexMisplaced,
    IndexMissing,
    IndexReadOnly,
    IndexUnusable,
)
from nsh.serving.index import Filter, Index, database, integrity, refusals

ENCODER = "a" * 64
CODE = np.zeros((1, 8), np.uint8)

# All items of a version carry its number, in code and metadata.
CHANGE = """
import sys
import numpy as np
from pathlib import Path
from nsh.serving.index import Index

index = Index.open(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    turn = index.version + 1
    if turn % 3:
        ids = [str(row) for row in range(50)]
        codes = np.full((50, 8), turn % 256, np.uint8)
        index.add(ids, codes, encoder_identity="a" * 64, metadata=[{"turn": str(turn)}] * 50)
    else:
        index.remove([str(row) for row in range(25)])
"""

LOOK = """
import sys
from pathlib import Path
from nsh.serving.index import Index

index = Index.open(Path(sys.argv[1]), readonly=True)
index.check()
print(index.version, len(index))
"""


def look(folder):
    """What another process sees: SQLite shares what it knows of a file within a process."""
    done = subprocess.run([sys.executable, "-c", LOOK, str(folder)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.splitlines()[-1]


@pytest.fixture
def folder(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    ids = [str(row) for row in range(2000)]
    codes = np.random.default_rng(0).integers(0, 256, (2000, 8), dtype=np.uint8)
    index.add(ids, codes, encoder_identity=ENCODER, metadata=[{"turn": "1"}] * 2000)
    index.close()
    return tmp_path / "index"


def test_on_a_read_only_mount_beside_a_writer_each_answer_is_of_one_version(tmp_path, mount_read_only):
    Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER).close()
    mount_read_only(tmp_path / "index", tmp_path / "mounted")
    process = subprocess.Popen(
        [sys.executable, "-c", CHANGE, str(tmp_path / "index")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        reader, seen = Index.open(tmp_path / "mounted", readonly=True), set()
        while len(seen) < 30:
            version, hits = reader.read(lambda snapshot: (snapshot.version, snapshot.search(CODE, k=100)[0]))
            last_added = version if version % 3 else version - 1
            assert len(hits) == (0 if version == 0 else 50 if version % 3 else 25)
            assert {hit.metadata["turn"] for hit in hits} <= {str(last_added)}
            assert {hit.distance for hit in hits} <= {8 * (last_added % 256).bit_count()}
            seen.add(version)
        with pytest.raises(IndexReadOnly, match=r"mounted cannot be written to: change its rights"):
            Index.open(tmp_path / "mounted").remove(["1"])
        reader.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_copy_of_an_index_that_is_open_is_whole(folder, tmp_path):
    index = Index.open(folder)
    index.remove([str(row) for row in range(500)])
    shutil.copytree(folder, tmp_path / "copy")
    assert look(tmp_path / "copy") == "2 1500"


def kill_while_it_writes(folder):
    """A process that ends when a part of its change is in the database, and leaves the journal that undoes it."""
    with closing(sqlite3.connect(folder / database.FILE)) as connection:
        pid = os.fork()
        if pid == 0:
            connection = sqlite3.connect(folder / database.FILE, isolation_level=None)
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO item VALUES (?, ?, NULL, 0)", [(row, f"new{row}" * 9) for row in range(9999, 19999)]
            )
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (folder / f"{database.FILE}-journal").stat().st_size > 0


def test_a_half_change_is_taken_back_only_where_that_can_be_written(folder, tmp_path, mount_read_only):
    kill_while_it_writes(folder)
    mount_read_only(folder, tmp_path / "mounted")
    assert "was killed while it changed" in look(tmp_path / "mounted")
    assert "run `nsh index info` once where the folder can be written" in look(tmp_path / "mounted")
    assert look(folder) == "1 2000"
    assert look(tmp_path / "mounted") == "1 2000"


def test_a_change_without_room_is_refused_and_undone(tmp_path, mount):
    volume = tmp_path / "volume"
    volume.mkdir()
    mount("-t", "tmpfs", "-o", "size=1200k", "none", volume)
    index = Index.create(volume / "index", bits=64, encoder_identity=ENCODER)
    index.add(["first"], CODE, encoder_identity=ENCODER)
    free = shutil.disk_usage(volume).free
    for count in (8000, 20_000, 200_000):  # what has no room: the database at the commit, or already the codes
        with pytest.raises(IndexFull, match="the disk is full: nothing was changed in"):
            index.add([f"{row:0100}" for row in range(count)], np.zeros((count, 8), np.uint8), encoder_identity=ENCODER)
        assert shutil.disk_usage(volume).free >= free - 64 * 1024
        assert [hit.id for hit in index.search(CODE, k=9)[0]] == ["first"]
    index.add(["second"], CODE, encoder_identity=ENCODER)
    index.check()
    assert len(index) == 2


def zero_pages(folder, first, count):
    path = folder / database.FILE
    content = bytearray(path.read_bytes())
    content[4096 * first : 4096 * (first + count)] = bytes(4096 * count)
    path.write_bytes(content)


def test_damage_is_found_by_a_check_and_named_by_what_meets_it(folder):
    pages = (folder / database.FILE).stat().st_size // 4096
    zero_pages(folder, pages // 2, 3)
    index = Index.open(folder)
    with pytest.raises(IndexDamaged, match=r"index\.sqlite: .*: restore a backup, or build it again"):
        index.check()
    with pytest.raises(IndexDamaged):
        index.search(CODE, k=2000)


@pytest.mark.parametrize("first", [0, 1, 2, 5])
def test_damage_anywhere_is_one_error(folder, first):
    zero_pages(folder, first, 1000)

    def use():
        index = Index.open(folder)
        index.search(CODE, k=2000)
        index.remove([str(row) for row in range(2000)])

    with pytest.raises(IndexDamaged):
        use()


@pytest.mark.parametrize(
    ("statement", "finding", "met"),
    [
        ("UPDATE item SET id = 'other' WHERE key = 7", "an item is not what was written", True),
        ("UPDATE item SET metadata = NULL WHERE key = 7", "an item is not what was written", True),
        ("DELETE FROM item WHERE key = 7", "belong", True),
        ("UPDATE block SET codes = zeroblob(length(codes))", "the codes of block 0 are not what was written", True),
        ("UPDATE block SET version = 0", "the codes of block 0 are not what was written", True),
        ("DELETE FROM block", "2000 ids and 0 codes do not belong together", True),
        ("UPDATE setting SET value = '32' WHERE name = 'bits'", "its settings are not what was written", True),
        ("UPDATE metadata SET value = '2' WHERE key = 7", "an item's metadata cannot be searched", False),
        ("INSERT INTO metadata VALUES ('turn', '2', 7)", "metadata belong to no item", False),
        ("UPDATE facet SET items = 1999", "the numbers of metadata are wrong", False),
        ("DELETE FROM facet", "the names of metadata are incomplete", False),
    ],
)
def test_what_sqlite_cannot_notice_a_check_finds(folder, statement, finding, met):
    """And an answer that it would change is refused: hits of an item, or any if it concerns the codes."""
    with closing(sqlite3.connect(folder / database.FILE)) as connection, connection:
        connection.execute(statement)
        with pytest.raises(IndexDamaged, match=finding), database.translate(folder):
            integrity.check(connection, folder)
    if met:
        with pytest.raises(IndexDamaged):
            Index.open(folder).search(CODE, k=2000)


def flips(size):
    """Places of one bit each: the head of the file, and others all over it."""
    generator = np.random.default_rng(0)
    return [
        (place, 1 << int(generator.integers(8))) for place in (*range(0, 100, 4), *generator.integers(size, size=120))
    ]


def test_a_flipped_bit_anywhere_is_found_or_changes_nothing(tmp_path):
    index = Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    codes = np.random.default_rng(0).integers(0, 256, (300, 8), dtype=np.uint8)
    metadata = [{"class": str(row % 7), "name": f"{row:x}" * 9} for row in range(300)]
    index.add([f"{row % 5}/{row}" for row in range(300)], codes, encoder_identity=ENCODER, metadata=metadata)
    index.remove([f"{row % 5}/{row}" for row in range(0, 300, 11)])
    index.close()
    whole = (tmp_path / "index" / database.FILE).read_bytes()
    wanted, found = everything(Index.open(tmp_path / "index"), codes[:2]), 0
    for place, bit in flips(len(whole)):
        folder = tmp_path / f"{place}-{bit}"
        folder.mkdir()
        content = bytearray(whole)
        content[place] ^= bit
        (folder / database.FILE).write_bytes(content)
        try:
            opened = Index.open(folder)
            opened.check()
        except IndexUnusable:
            found += 1
            with suppress(IndexUnusable, CodesError):
                hits = everything(Index.open(folder), codes[:2])
                assert all(set(some) <= set(all_) for some, all_ in zip(hits, wanted, strict=True)), (place, bit)
        else:
            assert everything(opened, codes[:2]) == wanted, (place, bit)
    assert found > 40


def everything(index, query):
    """What searches say: of all items, and with filters."""
    filters = [None, Filter(id_prefix="3/"), Filter(column="class", value="4")]
    return [
        [(hit.id, hit.distance, *sorted(hit.metadata.items())) for hit in hits]
        for where in filters
        for hits in index.search(query, k=400, where=where)
    ]


def test_a_folder_where_the_database_should_be(tmp_path):
    (tmp_path / database.FILE).mkdir()
    with pytest.raises(IndexMissing):
        Index.open(tmp_path)


def test_a_second_writer_is_told_of_the_first(folder, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    index = Index.open(folder)
    with database.writing(folder), pytest.raises(IndexBusy):
        index.remove(["1"])


@pytest.mark.parametrize("kind", ["nfs4", "cifs"])
def test_a_network_file_system_is_refused_in_one_sentence(folder, monkeypatch, kind):
    monkeypatch.setattr(refusals, "file_system", lambda path: kind)  # none can be mounted here
    for use in (Index.open, lambda path: Index.create(path / "new", bits=8, encoder_identity=ENCODER)):
        with pytest.raises(IndexMisplaced, match=f"a network file system, {kind}.*: keep it on a local disk"):
            use(folder)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_IOERR_LOCK, IndexMisplaced),
        (sqlite3.SQLITE_PROTOCOL, IndexMisplaced),
        (sqlite3.SQLITE_IOERR_READ, IndexUnusable),
        (sqlite3.SQLITE_IOERR_SHORT_READ, IndexDamaged),
        (sqlite3.SQLITE_NOTADB, IndexDamaged),
        (sqlite3.SQLITE_CANTOPEN, IndexUnusable),
    ],
)
def test_what_sqlite_says_of_a_place_has_an_error_of_ours(folder, code, error):
    """Codes of which this machine's file systems give none."""

    def fail():
        with database.translate(folder):
            raised = sqlite3.OperationalError("disk I/O error")
            raised.sqlite_errorcode = code
            raise raised

    with pytest.raises(error) as caught:
        fail()
    assert type(caught.value) is error
    assert str(folder) in str(caught.value)


def test_a_bug_stays_one(folder):
    index = Index.open(folder)
    index.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        index.search(CODE, k=1)
