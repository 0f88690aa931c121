"""The signs that an adversarial training has failed, and the warnings about them. Knows no loss.

An objective reports three figures beside its losses: mean D(real), mean D(fake), and how much its codes tell. Each
record says by a 0 or 1 whether they mean a failure, so that history.json and MLflow show when it began. If the last
record says so the training warns. Its head is kept: how bad it is, is for the evaluation to say.
"""

import math
import warnings
from typing import ClassVar

import torch
from torch import Tensor, nn

from nsh.errors import TrainingError
from nsh.objectives.base import HashHead, Loop, Objective, Report, TrainingData
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.binary import sign

FEW = 1 / 3  # codes that tell less than this share of what they could have collapsed; 4 codes of 64 images tell it
SURE = 1e-2  # of D(real) from 1 and of D(fake) from 0, where the critic has hardly a gradient left
BLIND = 1e-5  # between D(real) and D(fake), where the critic answers the same to everything


class FailedTraining(UserWarning):
    """An adversarial training has ended in a state from which it can learn no more."""


class CollapsedCodes(FailedTraining):
    """Nearly all images have the same few codes."""


class VanishedCritic(FailedTraining):
    """The critic tells nothing apart, or is so certain that nothing can be learned from it."""


class AdversarialMethod(GradientMethod):
    """A method that learns from a critic; its objective's terms include those of `watch_codes` and `watch_critic`."""

    name: ClassVar[str]

    def fit(self, data: TrainingData, *, bits: int, seed: int, report: Report, loop: Loop) -> HashHead:
        """Minimise the objective and return its hash head.

        `report` gets the objective's terms, "collapsed", "vanished" and bit_balance once an epoch.

        Raises:
            TrainingError: all images have the same embedding, or the loop cannot train on this data.

        Warns:
            CollapsedCodes, VanishedCritic: what the last epoch's record says.
        """
        last: dict[str, float] = {}

        def judge(record: dict[str, float]) -> None:
            last.update(record)
            report(record | {"collapsed": float(has_collapsed(record)), "vanished": float(has_vanished(record))})

        head = super().fit(data, bits=bits, seed=seed, report=judge, loop=loop)
        warn_of_failures(f"{self.name} at {bits} bits", last)
        return head

    def objective(self, data: TrainingData, *, bits: int, seed: int) -> Objective:
        """A new objective.

        Raises:
            TrainingError: all training images have the same embedding, of which a critic knows every one.
        """
        if (data.features == data.features[0]).all():
            raise TrainingError(
                "all training images have the same embedding: look at the images or the backbone's weights"
            )
        return super().objective(data, bits=bits, seed=seed)


@torch.no_grad()
def watch_codes(head: nn.Module, embeddings: Tensor) -> dict[str, Tensor]:
    """The entropy of a batch's codes, as a share of the most that n codes of so many bits can have.

    It is 0 if all codes are equal and 1 if all differ: mean log(n / images with the same code) over the smaller one of
    bits log 2 and log n.

    Args:
        head: of embeddings to logits, float [n, bits], as it ships: without dropout.
        embeddings: float [n, dim], n >= 2.
    """
    codes = sign(head(embeddings))
    count, bits = codes.shape
    alike = (codes @ codes.T == bits).sum(dim=1)
    return {"code_information": (count / alike).log().mean() / min(bits * math.log(2), math.log(count))}


def has_collapsed(record: dict[str, float]) -> bool:
    """Whether the codes of an epoch were nearly all the same."""
    return record["code_information"] < FEW


def has_vanished(record: dict[str, float]) -> bool:
    """Whether the critic of an epoch was certain or blind."""
    real, fake = record["critic_real"], record["critic_fake"]
    return (real > 1 - SURE and fake < SURE) or abs(real - fake) < BLIND


def warn_of_failures(training: str, record: dict[str, float]) -> None:
    """Warn of what the last `record` of a `training` says; the caller's caller is named."""
    if has_collapsed(record):
        told = f"{record['code_information']:.1%} of what they could tell"
        text = f"{training}: the codes have collapsed, and tell {told}: lower the learning rate, or take another method"
        warnings.warn(text, CollapsedCodes, stacklevel=3)
    if has_vanished(record):
        found = f"D(real) is {record['critic_real']:.4f} and D(fake) {record['critic_fake']:.4f}"
        text = f"{training}: the critic has vanished: {found}, and nothing is learned from it: lower the learning rate"
        warnings.warn(text, VanishedCritic, stacklevel=3)
