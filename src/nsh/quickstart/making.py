"""Makes a search page of a folder of photos, step by step; what is done is not done again.

search/codes       a code of every photo
search/index       their index
search/made.json   the digest of the params.yaml that the encoder was learned with, and the encoder's identity

The encoder is learned anew where params.yaml changes, and not where photos come or go. Codes and index are made anew
where the encoder is another one.
"""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from nsh.config.applying import PARAMS, take
from nsh.core.identity import identity_of_file
from nsh.project.paths import Project
from nsh.quickstart.preparation import Plan
from nsh.quickstart.steps import Steps
from nsh.serving.commands.health import DEFAULT_HOST
from nsh.system.files import read_json, sha256_bytes, write_json


class SearchPage:
    """The search page of one folder of photos.

    Attributes:
        encoder: its file.
        codes: the folder of the photos' codes.
        index: the folder of their index.
    """

    def __init__(self, plan: Plan, steps: Steps, *, project: Project) -> None:
        """Take what is to be made, what runs commands, and where."""
        self._plan, self._steps = plan, steps
        self.encoder = project.of(plan.pair).encoder
        self.codes, self.index = project.search / "codes", project.search / "index"
        self._note = project.search / "made.json"

    def make(self) -> None:
        """Learn the encoder, encode every photo, and index the codes.

        Raises:
            KeyboardInterrupt: Ctrl-C; the next call goes on.
            NshError: a step failed.
        """
        self._set_params()
        self._learn()
        self._discard_codes_of_another_encoder()
        excluded = [f"--exclude={glob}" for glob in self._plan.exclude]
        self._steps.nsh("encode", str(self._plan.root), f"--model={self.encoder}", f"--out={self.codes}", *excluded)
        self._steps.nsh("index", "update", str(self.codes), f"--index={self.index}")

    def serve_words(self, port: int) -> tuple[str, ...]:
        """The words of `nsh` that serve the page."""
        files = f"--model={self.encoder}", f"--index={self.index}", f"--images={self._plan.root}"
        return ("serve", *files, f"--host={DEFAULT_HOST}", f"--port={port}")

    def _set_params(self) -> None:
        """What was learned with other parameters counts no more, before these are written."""
        if PARAMS.read_bytes() != self._plan.params.encode():
            self._note.unlink(missing_ok=True)
        take(self._plan.params)

    def _learn(self) -> None:
        words = ("repro", f"export@{self._plan.pair.key}")
        if self._read_note().get("params") == self._params_digest and self.encoder.is_file():
            self._steps.skip("dvc", *words)
        else:
            self._steps.dvc(*words)

    def _discard_codes_of_another_encoder(self) -> None:
        identity = identity_of_file(self.encoder.read_bytes(), name=str(self.encoder))
        made = {"params": self._params_digest, "encoder": identity}
        if self._read_note() != made:
            for folder in (self.codes, self.index):
                shutil.rmtree(folder, ignore_errors=True)
            write_json(self._note, made)

    @property
    def _params_digest(self) -> str:
        return sha256_bytes(self._plan.params.encode())

    def _read_note(self) -> dict[str, Any]:
        with suppress(OSError, json.JSONDecodeError):
            found: dict[str, Any] = read_json(self._note)
            return found
        return {}


def describe(done: list[tuple[str, float | None]], *, serve: str, root: Path) -> str:
    """What was done, each step as a command of its own with its time, and how to change the result."""
    steps = [("", f"tools/use_profile own-folder   # with dataset.root: {root}")]
    steps += [("done before" if seconds is None else _duration(seconds), line) for line, seconds in done]
    lines = [f"{taken:>11}  {line}" for taken, line in [*steps, ("", serve)]]
    return "\n".join(["\nThe steps, each a command of its own:", *lines, _CHANGES])


_CHANGES = """
How to change it:
  photos were added, changed or removed    run the same command again: it encodes what is new
  learn from added photos too              `dvc repro`, then the same command again
  bits, method, size, labels               edit params/own-folder.yaml, then the same command again
  compare methods, and get a report        `make repro`, then open reports/results.md
  where the time of `dvc repro` went       `nsh times`
  back to this repository's own results    `make repro PROFILE=default`"""


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
