"""Squares on the device: the same ones wherever they lie, and on the device for good only where there is room."""

import threading

import numpy as np
import pytest
import torch
from tests.waiting import wait_until

from nsh.training.finetune import image_reader
from nsh.training.finetune.image_cache import SHARD, ImageCache
from nsh.training.finetune.image_reader import DeviceReader, DiskReader, open_reader, send

SIDE, COUNT = 4, SHARD + 20
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def squares():
    return np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def cache(squares):
    sizes = np.full((COUNT, 2), SIDE, np.int32)
    return ImageCache(shards=[squares[:SHARD], squares[SHARD:]], sizes=sizes, side=SIDE)


@pytest.mark.parametrize(
    "make", [lambda cache: DeviceReader(cache, CPU), lambda cache: DiskReader(cache, CPU, workers=3)]
)
def test_batches_are_the_squares_of_their_rows(make, cache, squares):
    batches = [np.array(rows) for rows in ([3, 1, 3], [COUNT - 1, SHARD, SHARD - 1], [0], [5, 5])]
    found = list(make(cache).read(iter(batches)))
    assert [batch.dtype for batch in found] == [torch.uint8] * 4
    for rows, batch in zip(batches, found, strict=True):
        assert np.array_equal(batch.numpy(), squares[rows])


def test_a_few_batches_are_read_ahead_and_no_more(cache, monkeypatch):
    read, method, before = [], ImageCache.read, set(threading.enumerate())
    monkeypatch.setattr(
        ImageCache, "read", lambda self, rows, into: read.append(rows.tolist()) or method(self, rows, into)
    )
    batches = DiskReader(cache, CPU, workers=1).read(np.array([row]) for row in range(10))
    next(batches)
    wait_until(lambda: len(read) >= 3)
    assert read == [[0], [1], [2]]
    batches.close()
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize(("free", "kind"), [(4, "DeviceReader"), (3.99, "DiskReader")])
def test_a_quarter_of_the_free_memory_of_a_gpu_decides(cache, monkeypatch, free, kind):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(free * cache.bytes), 80 * 2**30))
    monkeypatch.setattr(image_reader.DeviceReader, "__init__", lambda self, cache, device: None)
    assert type(open_reader(cache, torch.device("cuda"), workers=1)).__name__ == kind


def test_on_the_cpu_squares_stay_where_they_are(cache):
    assert isinstance(open_reader(cache, CPU, workers=1), DiskReader)


def test_what_is_sent_keeps_its_values_and_type():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1]
    assert torch.equal(send(array, CPU), torch.tensor([1.0, 5.0, 9.0]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("make", [DeviceReader, lambda *arguments: DiskReader(*arguments, workers=2)])
def test_on_a_gpu_they_are_the_same(make, cache, squares):
    batches = [np.arange(start, start + 40) for start in range(0, 200, 40)]
    for rows, batch in zip(batches, make(cache, torch.device("cuda")).read(batches), strict=True):
        assert batch.device.type == "cuda"
        assert np.array_equal(batch.cpu().numpy(), squares[rows])
