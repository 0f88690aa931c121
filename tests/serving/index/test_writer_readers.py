"""Readers beside writers: each answer is of one version, and none waits."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from nsh.errors import IndexBusy
from nsh.serving.index import Filter, Index, blocks, database, selection, writer

ENCODER = "a" * 64


def test_a_reader_slower_than_its_writers_is_answered(folder, monkeypatch):
    """Each of the first attempts is overtaken; then nothing is committed until the reader is done."""
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    index, versions, code = Index.open(folder), [], np.zeros((1, 8), np.uint8)
    index.add(["0"], code, encoder_identity=ENCODER)

    def ask(snapshot):
        versions.append(snapshot.version)
        if len(versions) <= 3:
            writer.add(folder, [str(len(versions))], code, metadata=None)
        else:
            with pytest.raises(IndexBusy):
                writer.add(folder, ["late"], code, metadata=None)
        return [hit.id for hit in snapshot.search(code, k=9)[0]]

    assert index.read(ask) == ["0", "1", "2", "3"]
    assert versions == [1, 2, 3, 4]
    index.add(["late"], code, encoder_identity=ENCODER)
    assert len(index) == 5


def test_a_change_elsewhere_does_not_overtake_a_reader(folder, monkeypatch):
    monkeypatch.setattr(blocks, "KEYS", 2)
    index, versions, codes = Index.open(folder), [], np.arange(24, dtype=np.uint8).reshape(3, 8)
    index.add(["a", "b", "c"], codes, encoder_identity=ENCODER)

    def ask(snapshot):
        versions.append(snapshot.version)
        writer.remove(folder, ["c"])
        return [hit.id for hit in snapshot.search(codes[:1], k=2)[0]]

    assert index.read(ask) == ["a", "b"]
    assert versions == [1]


def test_a_slow_filter_holds_up_no_search(folder, monkeypatch):
    index, asked, leave = Index.open(folder), threading.Event(), threading.Event()
    index.add(["a", "b"], np.zeros((2, 8), np.uint8), encoder_identity=ENCODER)
    fetch, found = selection._fetch, []

    def slow(*arguments):
        asked.set()
        leave.wait()
        return fetch(*arguments)

    monkeypatch.setattr(selection, "_fetch", slow)
    where = Filter(id_prefix="b")
    thread = threading.Thread(target=lambda: found.extend(index.search(np.zeros((1, 8), np.uint8), k=5, where=where)))
    thread.start()
    asked.wait()
    assert [hit.id for hit in index.search(np.zeros((1, 8), np.uint8), k=5)[0]] == ["a", "b"]
    leave.set()
    thread.join()
    assert [[hit.id for hit in hits] for hits in found] == [["b"]]


def test_a_forked_child_opens_the_index_anew(folder):
    """Children of one parent that has an open index, in which a thread is reading, search while the parent writes."""
    index, code = Index.open(folder), np.zeros((1, 8), np.uint8)
    index.add(["0"], code, encoder_identity=ENCODER)
    children = []
    for _ in range(4):
        with index._database.refreshing, index._database.reading():
            pid = os.fork()
        if pid == 0:
            status = 1
            try:
                while len(hits := index.search(code, k=100)[0]) < 20:
                    assert [hit.id for hit in hits] == [str(number) for number in range(len(hits))]
                index.add([f"child {os.getpid()}"], code, encoder_identity=ENCODER)
                status = 0
            finally:
                os._exit(status)
        children.append(pid)
    for number in range(1, 20):
        index.add([str(number)], code, encoder_identity=ENCODER)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    index.refresh()
    assert {hit.id for hit in index.search(code, k=100)[0][20:]} == {f"child {pid}" for pid in children}
    index.check()


def test_threads_search_while_one_writes_and_all_refresh(folder):
    index = Index.open(folder)
    failures = []
    done = threading.Event()

    def read():
        try:
            while not done.is_set():
                hits = index.search(np.zeros((2, 8), np.uint8), k=1000)
                assert hits[0] == hits[1]
                assert len(hits[0]) % 10 == 0
                assert len({hit.metadata["round"] for hit in hits[0]}) <= 1
                index.refresh()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(30):  # all items change at once: a search that mixes two versions sees two rounds
        ids = [str(row) for row in range(10 * (turn // 10 + 1))]
        metadata = [{"round": str(turn)}] * len(ids)
        index.add(ids, np.zeros((len(ids), 8), np.uint8), metadata=metadata, encoder_identity=ENCODER)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_there_is_no_log_that_could_grow_while_readers_are_open(folder):
    index, reader = Index.open(folder), Index.open(folder, readonly=True)
    for turn in range(20):
        index.add([f"{turn}/{row}" for row in range(200)], np.zeros((200, 8), np.uint8), encoder_identity=ENCODER)
        reader.refresh()
        assert sorted(path.name for path in folder.iterdir()) == ["index.sqlite"]
    assert len(reader) == 4000


LOOK = """
import mmap, os, sys
import numpy as np
from pathlib import Path
from nsh.errors import CodesError, IndexBusy
from nsh.serving.index import Index
if os.getuid() == 0:
    os.setuid(65534)  # nobody: no right of a file stops root
folder = Path(sys.argv[1])
assert not os.access(folder, os.W_OK)
index = Index.open(folder, readonly=True)
index.refresh()
print([hit.id for hit in index.search(np.zeros((1, 8), np.uint8), k=9)[0]])
try:
    Index.open(folder).add(["b"], np.zeros((1, 8), np.uint8), encoder_identity="a" * 64)
except CodesError as error:
    print(error)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_read_only_folder_opens_and_refuses_changes(killed):
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "index"
        code = "import sys, os, numpy as np; from nsh.serving.index import Index; from pathlib import Path\n"
        code += "index = Index.create(Path(sys.argv[1]), bits=64, encoder_identity='a' * 64)\n"
        code += "index.add(['a'], np.zeros((1, 8), np.uint8), encoder_identity='a' * 64)\n"
        code += "os.kill(os.getpid(), 9)" if killed else ""
        subprocess.run([sys.executable, "-c", code, str(folder)], check=not killed)
        for path in (*folder.rglob("*"), folder):
            path.chmod(0o555)
        uncovered = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        result = subprocess.run(  # nobody may not write the data of `make coverage`
            [sys.executable, "-c", LOOK, str(folder)], capture_output=True, text=True, check=False, env=uncovered
        )
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "['a']"
    assert "cannot be written to" in result.stdout.splitlines()[1]
