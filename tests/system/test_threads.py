"""Work shared among threads comes back in order, bounded, and ends with whoever asked for it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from nsh.system.threads import map_in_threads, map_ordered


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 5), st.integers(1, 4))
def test_results_come_in_the_order_of_the_items(delays, ahead, workers):
    def slow(item):
        time.sleep(item[1] / 2000)
        return item

    items = list(enumerate(delays))
    with ThreadPoolExecutor(workers) as pool:
        assert list(map_ordered(pool, slow, items, ahead=ahead)) == items


def test_no_more_than_ahead_are_taken_beyond_what_was_yielded():
    taken = []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        for yielded, _ in enumerate(map_ordered(pool, abs, items(), ahead=4)):
            assert len(taken) <= yielded + 4


def test_a_failure_is_raised_in_its_turn_and_stops_what_has_not_begun():
    done, gate = [], threading.Event()

    def work(number):
        if number == 1:
            raise ValueError("one")
        if number > 1:
            gate.wait(PATIENCE)
        done.append(number)
        return number

    with ThreadPoolExecutor(1) as pool:
        results = map_ordered(pool, work, range(10), ahead=5)
        assert next(results) == 0
        with pytest.raises(ValueError, match="one"):
            next(results)
        gate.set()
    assert len(done) <= 2  # the first, and one that may have begun


def test_closing_stops_what_has_not_begun():
    done, gate = [], threading.Event()

    def work(number):
        if number:
            gate.wait(PATIENCE)
        done.append(number)

    with ThreadPoolExecutor(1) as pool:
        results = map_ordered(pool, work, range(100), ahead=50)
        next(results)
        results.close()
        gate.set()
    assert len(done) <= 2


def test_threads_of_its_own_end_with_the_iterator():
    before, started = set(threading.enumerate()), []
    made = map_in_threads(lambda item: started.append(item) or 10 * item, range(9), threads=1, ahead=3)
    assert next(made) == 0
    assert len(set(threading.enumerate()) - before) == 1
    made.close()
    assert not set(threading.enumerate()) - before
    assert started == list(range(len(started)))
    assert len(started) <= 3
    assert list(map_in_threads(lambda item: 10 * item, range(9), threads=4, ahead=3)) == list(range(0, 90, 10))


def test_four_items_are_in_work_for_each_thread():
    taken = []
    results = map_in_threads(
        lambda number: number, map(lambda number: taken.append(number) or number, range(100)), threads=2
    )
    assert next(results) == 0
    assert taken == list(range(8))
    results.close()
