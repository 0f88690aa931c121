"""A hundred kills with -9 at random instants: `make test-crash` takes minutes, so it is not among the tests of CI.

What was answered is there, and nothing is there in part. A command is killed after the journal of its change has
appeared, up to twice the time after which it would have ended; a service, while it answers PUTs.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.waiting import wait_until

from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index
from nsh.serving.index.database import FILE

COMMANDS, SERVICES = 66, 34  # kills
KEPT, CHANGED = 1_000, 20_000  # items: those that stay, and those that a command adds or removes
TOKEN = "the token of the kills"
NSH = [sys.executable, "-m", "nsh.cli"]


@pytest.fixture
def encoder(encoder_path):
    return Encoder(encoder_path, threads=1)


@pytest.fixture
def folder(tmp_path, encoder):
    index = Index.create(tmp_path / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    index.add([f"kept/{row}" for row in range(KEPT)], draw(encoder, KEPT), encoder_identity=encoder.identity)
    index.close()
    return tmp_path / "index"


def draw(encoder, count):
    values = np.random.default_rng(0).integers(0, 256, (count, -(-encoder.contract.bits // 8)), dtype=np.uint8)
    values[:, -1] &= 0xFF << (-encoder.contract.bits % 8) & 0xFF  # the padding
    return values


def write_codes(folder, ids, encoder):
    plan = Plan(
        encoder_identity=encoder.identity, bits=encoder.contract.bits, images=len(ids), images_sha256=digest_ids(ids)
    )
    writer = CodesWriter(folder, plan)
    writer.write(0, [Entry(id=name) for name in ids], draw(encoder, len(ids)))
    writer.finish()
    return folder


def run(folder, arguments, ids, *, after):
    """Run a command and kill it `after` seconds of its change (None: never); whether it was done, and its seconds."""
    process = subprocess.Popen(
        [*NSH, "index", *map(str, arguments), "--index", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    process.stdin.write("\n".join(ids).encode())
    process.stdin.close()
    journal = folder / f"{FILE}-journal"
    while not journal.exists() and process.poll() is None:
        time.sleep(0.0002)
    start = time.monotonic()
    if after is not None:
        time.sleep(after)
        process.kill()
    done = process.wait() == 0
    return done, time.monotonic() - start


def test_commands_that_are_killed(folder, tmp_path, encoder):
    ids, chance = [f"changed/{row}" for row in range(CHANGED)], random.Random(0)
    codes = write_codes(tmp_path / "codes", ids, encoder)
    commands = {False: (["add", codes], []), True: (["remove", "-"], ids)}  # by whether the items are there
    spans = {there: run(folder, *commands[there], after=None)[1] for there in (False, True)}
    there, outcomes = False, []
    for _ in range(COMMANDS):
        done, _ = run(folder, *commands[there], after=chance.uniform(0, 2 * spans[there]))
        index = Index.open(folder)
        index.check()
        assert len(index) in (KEPT, KEPT + CHANGED)
        changed = (len(index) > KEPT) is not there
        assert changed or not done
        outcomes.append((done, changed))
        there = len(index) > KEPT
        index.close()
    print(
        f"{outcomes.count((False, False))} taken back, {outcomes.count((False, True))} done and not said, "
        f"{outcomes.count((True, True))} done"
    )


class Service:
    """`nsh serve` in a process of its own."""

    def __init__(self, encoder_path, folder, address):
        address.unlink(missing_ok=True)
        arguments = ["serve", "--model", encoder_path, "--index", folder, "--port", 0, "--address-file", address]
        environment = {**os.environ, "NSH_TOKEN": TOKEN}
        self.process = subprocess.Popen([*NSH, *map(str, arguments)], stderr=subprocess.DEVNULL, env=environment)
        wait_until(lambda: address.exists() or self.process.poll() is not None)
        self.port = int(address.read_text().strip().rstrip("/").rsplit(":", 1)[1])

    def put(self, name, code):
        """Whether it answered that the item is there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        try:
            connection.request("PUT", f"/v1/items/{name}", json.dumps({"code": code.tobytes().hex()}), headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def test_services_that_are_killed(folder, tmp_path, encoder, encoder_path):
    chance, answered, asked = random.Random(1), {}, 0
    codes = draw(encoder, 10_000)
    for turn in range(SERVICES):
        service = Service(encoder_path, folder, tmp_path / "address")
        assert service.put(f"first/{turn}", codes[turn])
        answered[f"first/{turn}"] = codes[turn]
        killer = threading.Timer(chance.uniform(0, 0.5), service.process.kill)
        killer.start()
        alive = True
        while alive:
            asked += 1
            if alive := service.put(f"put/{asked}", codes[asked]):
                answered[f"put/{asked}"] = codes[asked]
        killer.join()
        service.process.wait()
        index = Index.open(folder)
        index.check()
        for name, code in answered.items():
            np.testing.assert_array_equal(index.code_of(name), code)
        assert len(index) - KEPT - len(answered) <= turn + 1  # what a kill left done and not said
        index.close()
    print(f"{len(answered)} answered and there")
