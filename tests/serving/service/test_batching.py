"""Concurrent images share inferences, in order, and each request gets its own answers or its own failure."""

import asyncio
import threading

import numpy as np
import pytest
from tests.waiting import PATIENCE

from nsh.errors import UnreadableImage
from nsh.serving.service.batching import Batcher


class Recorder:
    """Answers with the first byte, and can be held up."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, images):
        assert self.gate.wait(PATIENCE)
        self.batches.append(list(images))
        if b"broken" in images:
            raise RuntimeError("the session failed")
        return [UnreadableImage("bad") if image == b"bad" else np.frombuffer(image[:1], np.uint8) for image in images]


@pytest.fixture
def recorder():
    return Recorder()


def run(work, recorder, **options):
    async def main():
        batcher = Batcher(recorder, **{"workers": 1, "batch": 4, **options})
        try:
            return await work(batcher)
        finally:
            batcher.close()

    return asyncio.run(main())


def test_a_lone_image_goes_at_once(recorder):
    async def work(batcher):
        return await batcher.encode([b"a"])

    assert run(work, recorder) == [np.frombuffer(b"a", np.uint8)]
    assert recorder.batches == [[b"a"]]


def test_what_waits_goes_together_up_to_a_batch(recorder):
    recorder.gate.clear()

    async def work(batcher):
        requests = [asyncio.create_task(batcher.encode([bytes([number])])) for number in range(8)]
        await asyncio.sleep(0)  # they wait in the queue, but for the first
        recorder.gate.set()
        return await asyncio.gather(*requests)

    answers = run(work, recorder)
    assert [int(code[0]) for [code] in answers] == list(range(8))
    assert [len(batch) for batch in recorder.batches] == [1, 4, 3]


def test_a_request_of_several_images_keeps_their_order(recorder):
    async def work(batcher):
        return await batcher.encode([b"c", b"bad", b"a", b"b", b"d", b"e"])

    answers = run(work, recorder, workers=2)
    assert isinstance(answers[1], UnreadableImage)
    assert b"".join(bytes(code) for code in answers if not isinstance(code, UnreadableImage)) == b"cabde"


def test_workers_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=PATIENCE)

    def encode(images):
        meeting.wait()
        return [np.zeros(1, np.uint8) for _ in images]

    async def work(batcher):
        return await asyncio.gather(batcher.encode([b"a"]), batcher.encode([b"b"]))

    assert len(run(work, encode, workers=2)) == 2


def test_who_gave_up_costs_no_lane(recorder):
    recorder.gate.clear()

    async def work(batcher):
        first = asyncio.create_task(batcher.encode([b"a"]))
        second = asyncio.create_task(batcher.encode([b"gone"]))
        await asyncio.sleep(0)  # they wait in the queue, but for the first
        second.cancel()
        third = asyncio.create_task(batcher.encode([b"b"]))
        await asyncio.sleep(0)
        recorder.gate.set()
        return await asyncio.gather(first, third)

    run(work, recorder)
    assert recorder.batches == [[b"a"], [b"b"]]


def test_a_failure_reaches_those_of_its_batch_and_no_other(recorder):
    recorder.gate.clear()

    async def work(batcher):
        requests = [asyncio.create_task(batcher.encode([image])) for image in (b"a", b"broken", b"c")]
        await asyncio.sleep(0)  # they wait in the queue, but for the first
        recorder.gate.set()
        outcomes = await asyncio.gather(*requests, return_exceptions=True)
        return [*outcomes, await batcher.encode([b"d"])]

    outcomes = run(work, recorder, batch=2)
    assert [isinstance(outcome, RuntimeError) for outcome in outcomes] == [False, True, True, False]
