"""Writers that are killed and that meet; every process here is a real one."""

import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from nsh.errors import CodesError
from nsh.serving.index import Index, blocks, database, items, schema

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
