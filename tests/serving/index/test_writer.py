"""Writers that are killed, that meet, and readers beside them; every process here is a real one."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from nsh.errors import CodesError, IndexBusy
from nsh.serving.index import Filter, Index, blocks, database, items, schema, selection, writer

ENCODER = "a" * 64

# The items of one round all carry its number in id, code and metadata: any mixture of two states shows.
WRITER = """
import sys
import numpy as np
from pathlib import Path
from nsh.serving.index import Index

index = Index.open(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    ids = [hit.id for hit in index.search(np.zeros((1, 8), np.uint8), k=100)[0]]
    print("change", flush=True)
    if ids:
        index.remove(ids[:50])
    else:
        turn = index.version
        codes = np.full((100, 8), turn % 256, np.uint8)
        ids = [f"{turn}/{row}" for row in range(100)]
        index.add(ids, codes, encoder_identity="a" * 64, metadata=[{"turn": str(turn)}] * 100)
"""


def start(folder):
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def check_whole(snapshot):
    """The state after one of the writer's calls, whatever was going on when it was killed."""
    code = np.zeros((1, 8), np.uint8)
    hits = snapshot.search(code, k=10**6)[0]
    assert len(hits) == len(snapshot)
    turns = {hit.metadata["turn"] for hit in hits}
    assert len(turns) <= 1
    numbers = [int(hit.id.split("/")[1]) for hit in hits]
    assert numbers in ([], list(range(100)), list(range(50, 100)))
    for turn in turns:
        assert {hit.id.split("/")[0] for hit in hits} == {turn}
        assert snapshot.code_of(hits[0].id).tolist() == [int(turn) % 256] * 8
        assert {hit.distance for hit in hits} == {8 * (int(turn) % 256).bit_count()}
    return snapshot.version


@pytest.fixture
def folder(tmp_path):
    Index.create(tmp_path / "index", bits=64, encoder_identity=ENCODER)
    return tmp_path / "index"


def test_killed_at_any_instant_it_is_the_last_complete_version(folder):
    chance = random.Random(0)
    begin = time.monotonic()
    index = Index.open(folder)
    index.add(["timed"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)
    index.remove(["timed"])
    one_write = (time.monotonic() - begin) / 2
    before = Index.open(folder).version
    for _ in range(24):
        process, changes = start(folder), chance.randint(1, 3)
        for _ in range(changes):
            assert process.stdout.readline() == "change\n"
        time.sleep(chance.uniform(0, one_write))  # the last of them is under way
        kill(process)
        index = Index.open(folder, readonly=True)
        assert index.read(check_whole) == index.version
        assert index.version >= before + changes - 1  # none that was done is lost
        before = index.version
        del index
    index = Index.open(folder)
    index.add(["last"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)
    index.check()
    assert [path.name for path in folder.iterdir()] == ["index.sqlite"]


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours may catch it."""


@pytest.mark.parametrize(("module", "step"), [(items, "change"), (blocks, "write_block"), (schema, "put_settings")])
def test_stopped_before_each_step_it_is_the_version_before(folder, monkeypatch, module, step):
    index = Index.open(folder)
    index.add(["a"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)

    def stop(*arguments, **keywords):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(module, step, stop)
        with pytest.raises(Killed):
            index.add(["b"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)
    for reader in (index, Index.open(folder)):
        assert [hit.id for hit in reader.search(np.zeros((1, 8), np.uint8), k=5)[0]] == ["a"]
    index.add(["c"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)
    assert [hit.id for hit in index.search(np.zeros((1, 8), np.uint8), k=5)[0]] == ["a", "c"]


def test_a_reader_beside_a_writer_sees_whole_versions_only(folder):
    process = start(folder)
    try:
        reader, seen = Index.open(folder, readonly=True), 0
        for _ in range(5):
            wanted = reader.version + 5
            while (version := reader.read(check_whole)) < wanted:
                assert version >= seen
                seen = version
    finally:
        kill(process)


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


SECOND = """
import sys
import numpy as np
from pathlib import Path
from nsh.serving.index import Index, database

index, connect = Index.open(Path(sys.argv[1])), database.connect

def connect_aloud(*arguments, **keywords):
    database.connect = connect
    print("begins", flush=True)
    return connect(*arguments, **keywords)

database.connect = connect_aloud
index.add(["late"], np.zeros((1, 8), np.uint8), encoder_identity="a" * 64)
print(index.version)
"""


def test_a_second_writer_waits_for_the_first(folder):
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with database.writing(folder):
            entered.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    second = subprocess.Popen([sys.executable, "-c", SECOND, str(folder)], stdout=subprocess.PIPE, text=True)
    assert second.stdout.readline() == "begins\n"
    assert Index.open(folder).version == 0  # readers do not wait
    assert second.poll() is None
    leave.set()
    holder.join()
    assert second.communicate()[0] == "1\n"
    assert second.returncode == 0


def test_a_second_writer_gives_up_in_one_sentence(folder, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.1)
    index = Index.open(folder)
    with (
        database.writing(folder),
        pytest.raises(CodesError, match=r"another process has been writing to .* for 0\.1 s"),
    ):
        index.add(["a"], np.zeros((1, 8), np.uint8), encoder_identity=ENCODER)


def test_two_processes_that_add_lose_nothing(folder):
    code = """
import sys
import numpy as np
from pathlib import Path
from nsh.serving.index import Index
index = Index.open(Path(sys.argv[1]))
for row in range(20):
    index.add([f"{sys.argv[2]}/{row}"], np.full((1, 8), row, np.uint8), encoder_identity="a" * 64)
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(folder), name]) for name in "xyz"]
    assert [process.wait() for process in processes] == [0, 0, 0]
    index = Index.open(folder)
    assert (len(index), index.version) == (60, 60)
    for name in "xyz":
        assert index.code_of(f"{name}/7").tolist() == [7] * 8


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
        result = subprocess.run([sys.executable, "-c", LOOK, str(folder)], capture_output=True, text=True, check=False)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == "['a']"
    assert "cannot be written to" in result.stdout.splitlines()[1]
