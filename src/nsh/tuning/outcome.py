"""What a search tells: its space before it begins, its best trials at the end, and the profile of a winner."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsh.config import Params
from nsh.core.nested import flatten
from nsh.terminal import align
from nsh.tuning.profile import profile_path, write_profile
from nsh.tuning.search import Search
from nsh.tuning.study import Scores, Trial

SHOWN = 5  # trials in the table beside the one of params.yaml


def describe_search(search: Search) -> str:
    """What is searched, and what judges."""
    trainer, held_out = search.trainer, search.trainer.held_out
    choose, check = (len(queries.features) for queries in (held_out.choose, held_out.check))
    judged = (
        f"{trainer.pair.key}, judged by {held_out.figure} on held-out training images: {choose} choose between trials, "
        f"{check} check the winner; {len(held_out.data.features)} are learned from and searched"
    )
    if held_out.labels is None:
        judged += ". There are no labels, so an estimate judges: it ranks, and forecasts no mAP"
    values = flatten(trainer.params.methods.model_dump(mode="json")[trainer.pair.method])
    kept = [f"{name}={value}" for name, value in values.items() if name not in search.space]
    stopping = (
        "from the second epoch on, a trial that is worse than the median of those before it is stopped"
        if "epochs" in values
        else "a closed form has no epochs: no trial is stopped early"
    )
    rows = [[name, str(span.default), f"{span.low:.4g}", f"{span.high:.4g}"] for name, span in search.space.items()]
    table = align([["searched", "params.yaml", "from", "to"], *rows])
    return "\n".join([judged, table, *([f"kept: {', '.join(kept)}"] if kept else []), stopping])


@dataclass(frozen=True)
class Outcome:
    """The trials of a study, of which the first has the values of params.yaml."""

    search: Search
    trials: Sequence[Trial]

    @property
    def complete(self) -> list[tuple[Trial, Scores]]:
        """The complete trials, best first."""
        found = [(trial, trial.scores) for trial in self.trials if trial.scores is not None]
        return sorted(found, key=lambda pair: (-pair[1].chosen, pair[0].number))

    @property
    def winner(self) -> Trial | None:
        """The best trial, if it is better than params.yaml's values by both halves of the held-out images."""
        trial, scores = self.complete[0]
        default = next(scores for trial, scores in self.complete if trial.number == 0)
        return trial if scores.chosen > default.chosen and scores.checked > default.checked else None

    def table(self) -> str:
        """The best trials beside the values of params.yaml."""
        shown = [*(pair for pair in self.complete if pair[0].number == 0)]
        shown += [pair for pair in self.complete if pair[0].number != 0][:SHOWN]
        figure = self.search.trainer.held_out.figure
        rows = [["trial", *("params.yaml" if trial.number == 0 else str(trial.number) for trial, _ in shown)]]
        rows.append([figure, *(f"{scores.chosen:.4f}" for _, scores in shown)])
        rows.append(["checked", *(f"{scores.checked:.4f}" for _, scores in shown)])
        rows += [[name, *(str(trial.values[name]) for trial, _ in shown)] for name in self.search.space]
        return align(rows)

    def conclude(self, base: Params) -> str:
        """Write the profile of a winner, and say what was won and what to do next."""
        counts = Counter(trial.state for trial in self.trials)
        told = f"{len(self.trials)} trials: {', '.join(f'{count} {state}' for state, count in counts.items())}"
        winner = self.winner
        if winner is None:
            return f"{told}\nthe values of params.yaml are not beaten on both halves: no profile is written"
        path = self._write(winner, base)
        return f"{told}\n{path} has the values of trial {winner.number}. Try them: make repro PROFILE={path.stem}"

    def _write(self, winner: Trial, base: Params) -> Path:
        trainer, pair = self.search.trainer, self.search.trainer.pair
        path = profile_path(pair)
        reasons = {
            f"methods.{pair.method}.{name}": f"{span.default} before; searched from {span.low:.4g} to {span.high:.4g}"
            for name, span in self.search.space.items()
        }
        heading = "\n".join(self._heading(winner, path))
        write_profile(path, trainer.with_values(winner.values), base=base, pair=pair, heading=heading, reasons=reasons)
        return path

    def _heading(self, winner: Trial, path: Path) -> Iterator[str]:
        default = self.trials[0]
        assert winner.scores is not None
        assert default.scores is not None
        pair, figure = self.search.trainer.pair, self.search.trainer.held_out.figure
        yield f"Values for {pair.method} at {pair.bits} bits that `nsh tune` found: make repro PROFILE={path.stem}"
        yield (
            f"{figure} on held-out training images {winner.scores.chosen:.4f}, with the values of params.yaml "
            f"{default.scores.chosen:.4f};"
        )
        yield f"on others, which chose nothing, {winner.scores.checked:.4f} and {default.scores.checked:.4f}."
        yield f"Trial {winner.number} of {len(self.trials)} in the study {self.search.name}; no query was read."
