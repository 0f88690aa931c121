"""A search: what it depends on, and trials until enough have ended, each recorded in MLflow."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from nsh.config import Params
from nsh.errors import ConfigError
from nsh.methods import create
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Pair, Project
from nsh.system.code import code_digest
from nsh.system.files import sha256_json
from nsh.terminal import show_progress
from nsh.tracking import Tried, tuning_run
from nsh.training.device import choose_device
from nsh.tuning.held_out import open_held_out
from nsh.tuning.space import Space, find_space
from nsh.tuning.study import Trial, open_study
from nsh.tuning.training import Trainer

STUDIES = Path(".cache/tuning/studies.db")  # not below .cache/nsh, which `make clean` removes: trials are results
CODE = ("nsh.tuning.training", "nsh.tuning.study")  # beside the method's: what scores depend on


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search and all that it depends on.

    Attributes:
        trainer: trains and judges a trial.
        space: what is searched.
        name: of the study, with a digest of all that scores depend on: values of two kinds never mix in a study.
    """

    trainer: Trainer
    space: Space
    name: str

    def run(self, *, trials: int, seconds: float | None, say: Callable[[str], None]) -> list[Trial]:
        """Run trials until `trials` have ended or the time is over, and return all of the study.

        Args:
            trials: with those of earlier searches in the study.
            seconds: after which no trial begins; None: no limit.
            say: gets a line for each trial.

        Raises:
            NshError: study, MLflow, or the method with the values of params.yaml cannot be used.
        """
        start, trainer = time.monotonic(), self.trainer
        with (
            open_study(STUDIES, name=self.name, space=self.space, seed=trainer.params.train.seed) as study,
            tuning_run(Path(), trainer.params, pair=trainer.pair, study=self.name) as record,
        ):
            ended = study.trials
            say(f"study {self.name} in {STUDIES}: {len(ended)} of {trials} trials are there")
            for trial in ended:
                record(self._tried(trial))
            left = range(len(ended), trials)
            for _ in show_progress(left, desc="trials", total=len(left)) if left else ():
                if seconds is not None and time.monotonic() - start > seconds:
                    say(f"{seconds:.0f} s are over: the same command goes on")
                    break
                trial = study.run_next(trainer.measure)
                record(self._tried(trial))
                say(self._describe(trial))
            return study.trials

    def _tried(self, trial: Trial) -> Tried:
        figure = f"held_out_{self.trainer.held_out.figure}"
        scores = {} if trial.scores is None else dict(zip((figure, f"{figure}_checked"), trial.scores, strict=True))
        params = self.trainer.with_values(trial.values) if not trial.refused else self.trainer.params
        return Tried(
            number=trial.number,
            params=params,
            state=trial.state,
            figures=scores,
            figure=figure,
            curve=trial.curve,
        )

    def _describe(self, trial: Trial) -> str:
        if trial.scores is not None:
            return f"trial {trial.number}: {self.trainer.held_out.figure} {trial.scores.chosen:.4f}"
        if trial.refused:
            return f"trial {trial.number}: refused: {trial.refused}"
        epoch = max(trial.curve)
        return f"trial {trial.number}: stopped after epoch {epoch}, at {trial.curve[epoch]:.4f}"


def open_search(params: Params, pair: Pair, *, only: Collection[str] = ()) -> Search:
    """A search in the project of the working folder.

    Args:
        params: of the project.
        pair: the method and the length of its codes.
        only: names of parameters to search; empty: all that can be.

    Raises:
        ConfigError: no such method, nothing to search, or the backbone is to be trained.
        DataError: split or embeddings are missing or too small.
    """
    if params.train.mode != "frozen":
        raise ConfigError(
            f"train.mode: found {params.train.mode}, a search trains heads on cached embeddings: set it to frozen for "
            "the search; the values that it finds are a start for fine-tuning"
        )
    blocks = params.methods.model_dump()
    create(pair.method, blocks.get(pair.method, {}))  # refuses a method that there is not
    project, space = Project(), find_space(pair.method, blocks[pair.method], only=only)
    held_out = open_held_out(project, k=params.evaluate.k, seed=params.split.seed)
    device = choose_device(params.compute.device)
    trainer = Trainer(params=params, pair=pair, held_out=held_out, cache=project.cache("tune"), device=device)
    return Search(trainer=trainer, space=space, name=_name(trainer, space, Embeddings(project.embed)))


def _name(trainer: Trainer, space: Space, embeddings: Embeddings) -> str:
    params, pair = trainer.params, trainer.pair
    identity = {
        "space": {name: [span.default, span.low, span.high] for name, span in space.items()},
        "values": params.methods.model_dump(mode="json")[pair.method],
        "train": params.train.model_dump(mode="json", exclude={"finetune"}),
        "embeddings": embeddings.header,
        "held_out": [params.split.seed, trainer.held_out.figure],
        "device": trainer.device.partition(":")[0],
        "code": code_digest([f"nsh.methods.{pair.method}", *CODE]),
    }
    return f"{pair.key}-{sha256_json(identity)[:8]}"
