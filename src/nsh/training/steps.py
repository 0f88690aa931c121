"""The steps of a training run, by Lightning, lean. Knows an objective and a place for its checkpoint, no method."""

import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from nsh.core.codes import binarize, pack
from nsh.core.errors import NonFiniteLoss
from nsh.core.files import atomic_path
from nsh.core.metrics.balance import bit_figures
from nsh.core.progress import Progress
from nsh.methods.base import Objective, Report, Schedule, TrainingData
from nsh.training.pairs import Pair, load_pairs


def run_steps(
    objective: Objective,
    data: TrainingData,
    *,
    schedule: Schedule,
    seed: int,
    threads: int,
    device: str,
    checkpoint: Path,
    report: Report,
    progress: Progress,
) -> None:
    """Minimise `objective` in place, going on from `checkpoint` where there is one (see `nsh.training.loop`)."""
    training = _Training(
        objective,
        features=torch.from_numpy(data.features),
        learning_rate=schedule.learning_rate,
        checkpoint=checkpoint,
        report=report,
        progress=progress,
    )
    with _reproducible(threads), _quiet_lightning():
        trainer = _lean_trainer(epochs=schedule.epochs, device=device)
        pairs = load_pairs(data.views, batch=schedule.batch, seed=seed)
        _fit(trainer, training, pairs, resume=checkpoint if checkpoint.exists() else None)


class _Training(LightningModule):
    """What Lightning must know of an objective."""

    def __init__(
        self,
        objective: Objective,
        *,
        features: Tensor,
        learning_rate: float,
        checkpoint: Path,
        report: Report,
        progress: Progress,
    ) -> None:
        super().__init__()
        self.objective = objective
        self.features = features
        self.learning_rate = learning_rate
        self.checkpoint = checkpoint
        self.report = report
        self.progress = progress
        self.records: list[dict[str, float]] = []
        self.sums: dict[str, Tensor] = {}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.objective.parameters(), lr=self.learning_rate, fused=True)

    def on_train_start(self) -> None:
        for record in self.records:
            self.report(record)
        epochs = self.trainer.max_epochs or 0
        steps = (epochs - len(self.records)) * int(self.trainer.num_training_batches)
        self.ticks = iter(self.progress(range(steps), desc="train", total=steps))

    def on_train_epoch_start(self) -> None:
        self.sums = {}

    def training_step(self, pair: Pair, step: int) -> Tensor:
        rows, first, second = pair
        terms = self.objective.measure(rows, first, second)
        if not math.isfinite(loss := terms["loss"].item()):
            raise NonFiniteLoss(
                f"the loss became {loss} in epoch {self.current_epoch + 1}, step {step + 1}, on the "
                f"training images in rows {rows.tolist()}: lower the learning rate, or look at these images"
            )
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0) + value.detach()
        next(self.ticks, None)
        return terms["loss"]

    def on_train_epoch_end(self) -> None:
        steps = int(self.trainer.num_training_batches)
        means = {name: float(total) / steps for name, total in self.sums.items()}
        record = {"epoch": self.current_epoch + 1, **means, "bit_balance": self._bit_balance()}
        self.records.append(record)
        if len(self.records) < (self.trainer.max_epochs or 0):
            with atomic_path(self.checkpoint) as partial:
                self.trainer.save_checkpoint(partial)
        self.report(record)

    def on_train_end(self) -> None:
        next(self.ticks, None)  # past the last step, so that a bar ends its line

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["records"] = self.records

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.records = checkpoint["records"]

    @torch.no_grad()
    def _bit_balance(self) -> float:
        head = self.objective.head.eval()  # as it will serve: a batch normalisation must not learn from this
        logits = head(self.features.to(self.device)).cpu().numpy()
        head.train()
        return bit_figures(pack(binarize(logits)), bits=head.bits)["bit_balance"]


def _lean_trainer(*, epochs: int, device: str) -> Trainer:
    """A trainer that only trains: what it would log, draw, save or guess is ours or nobody's."""
    kind, _, index = device.partition(":")
    return Trainer(
        accelerator=kind,
        devices=[int(index)] if index else 1,
        max_epochs=epochs,
        deterministic=True,
        plugins=[LightningEnvironment()],  # one process, also inside a cluster's job
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _fit(trainer: Trainer, training: _Training, pairs: DataLoader[Pair], *, resume: Path | None) -> None:
    try:
        trainer.fit(training, pairs, ckpt_path=resume, weights_only=True)
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):  # Lightning turns Ctrl-C into exit code 1
            raise KeyboardInterrupt from stop
        raise


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """Fixed threads and deterministic kernels inside, the caller's settings again outside."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Without Lightning's greetings, its advice on workers (views come from memory) and its own use of torch."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
            yield
    finally:
        logger.setLevel(level)
