"""Runs trials, each in a process of its own, some at once. Whatever stops the work, finished trials stay.

Knows neither methods nor tables.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from nsh.studies.protocol import K
from nsh.studies.setting import Setting
from nsh.studies.trials import Trial, code_of, folder_of, read_result

LOOK_AGAIN = 0.1  # seconds
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
Say = Callable[[str], None]


def run_trials(trials: Sequence[Trial], setting: Setting, *, jobs: int, say: Say) -> list[str]:
    """Measure the trials that are not measured yet, `jobs` at a time, in the order given.

    Args:
        trials: what to measure; each once.
        setting: where.
        jobs: processes at once, each of one thread.
        say: gets a line for each trial, with an estimate of the time left.

    Returns:
        A sentence for each trial that failed; the others are measured all the same.
    """
    waiting = [trial for trial in trials if read_result(trial, setting) is None]
    say(f"{setting.name}: {len(trials)} trials, {len(trials) - len(waiting)} of them measured before")
    total, start, ended, failures = len(waiting), time.monotonic(), 0, list[str]()
    running: list[_Process] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Process(waiting.pop(0), setting))
            time.sleep(LOOK_AGAIN)
            for process in [process for process in running if process.is_over()]:
                running.remove(process)
                ended += 1
                failure = process.failure()
                failures += [] if failure is None else [failure]
                left = _tell_time((time.monotonic() - start) / ended * (total - ended))
                say(f"[{ended}/{total}, {left}]  {failure or process.summary()}")
    finally:
        for process in running:
            process.stop()
    return failures


class _Process:
    """A trial while it is measured, with what its process says in a file."""

    def __init__(self, trial: Trial, setting: Setting) -> None:
        self.trial, self._setting = trial, setting
        folder = folder_of(trial, setting)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._log = folder.with_name(f"{folder.name}.log")
        command = [sys.executable, "-m", "nsh.studies.measure", str(setting.project.folder), str(folder)]
        command += [code_of(trial.method), json.dumps(trial.request)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | ONE_THREAD,
                process_group=0,  # Ctrl-C reaches this process alone: a second signal would cut a trial's cleaning up
            )

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def failure(self) -> str | None:
        """Why an ended process failed, None if it did not."""
        code = self._process.returncode
        if code == 0:
            self._log.unlink()
            return None
        lines = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        reason = f"killed by signal {-code}, perhaps for memory" if code < 0 else lines[-1] if lines else f"exit {code}"
        return f"{self.trial.name} failed: {reason} ({self._log})"

    def summary(self) -> str:
        """What an ended process found."""
        result = read_result(self.trial, self._setting)
        if result is None:
            return f"{self.trial.name}: its results are gone"
        return (
            f"{self.trial.name}: mAP@{K} {result.metrics[f'mAP_at_{K}']:.4f}, trained in {result.train_seconds:.1f} s"
        )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._log.unlink(missing_ok=True)


def _tell_time(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 60 else f"about {seconds:.0f} s left"
