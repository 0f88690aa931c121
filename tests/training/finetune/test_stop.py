"""SIGTERM waits for a good moment, does then what it would have done, and is the caller's again afterwards."""

import signal
from threading import Thread

import pytest

from nsh.training.finetune.stop import Stop


class EndedError(Exception):
    """What the test's own handler raises."""


@pytest.fixture(autouse=True)
def _handler():
    def end(signum, frame):
        raise EndedError

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


def test_it_is_noted_and_handed_on_when_the_block_says_so():
    with Stop() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked
        with pytest.raises(EndedError):
            stop.hand_on()


def test_a_handler_that_returns_does_not_keep_the_process_alive():
    signal.signal(signal.SIGTERM, lambda signum, frame: None)
    with pytest.raises(SystemExit) as end, Stop() as stop:
        stop.hand_on()
    assert end.value.code == 128 + signal.SIGTERM


def test_afterwards_the_handler_is_the_callers():
    with Stop():
        pass
    with pytest.raises(EndedError):
        signal.raise_signal(signal.SIGTERM)


def test_in_another_thread_nothing_is_put_off():
    asked = []

    def work():
        with Stop() as stop:
            asked.append(stop.asked)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert asked == [False]
