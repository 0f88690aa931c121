"""OH: an image is what its code recalls from a queue of codes and latents, and its two views are contrasted.

The later code of NSH's authors, RosieYuu/OH; we know no paper. It has no licence: this is written from a description of
what it computes, and no code is copied. A hidden layer of 2048 lies below a hash head and a latent head. With b the
code, sigmoid(logit) rounded with the gradient of the identity, and c the latent of unit length, an image is

    p = unit(unit(softmax(s / tau_s) C) + 0.5 c),

s the share of bits in which b matches each code of a queue, C the latents of that queue. The loss is MoCo's (He et al.,
"Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020, Eq. 1) of p of view 1 and p of view 2
among a queue of p, plus the cross entropy of each view 1 with its view 2 among those of the batch. View 2 and queues
come from a second encoder, the running average of the first, without gradient. Temperatures 0.2; queues of 4096;
averages of 0.999; Adam, 1e-5, batches of 50, 200 epochs.

Readings: both terms have one temperature; a batch joins the queues after its step; queues begin empty, where p is c.

Differences: the backbone is frozen and embeddings are standardised; the average begins as a copy at the first step.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import GradientMethod
from nsh.objectives.heads.binary import straight_through
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.heads.perceptron import PerceptronHead
from nsh.objectives.sorting.softsort import affinity
from nsh.objectives.sorting.sorted_queue import Queue
from nsh.ranges import Count, InnerShare, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class Oh(GradientMethod):
    """The later code of NSH's authors (RosieYuu/OH), its heads only.

    Unlike the paper: the heads alone for all layers; Adam 1e-3 for 1e-5; 3 epochs for 200.
    """

    epochs: Count = 3
    batch: Several = 50
    learning_rate: Positive = 1e-3
    hidden: Count = 2048  # length of the hidden layer below both heads
    d_z: Count = 1024  # length of the latent vector
    queue: Count = 4096  # codes, latents and images of earlier steps
    tau_s: Positive = 0.2  # temperature of recalling, on the share of matching bits
    tau_c: Positive = 0.2  # contrastive temperature of both terms
    own: Weight = 0.5  # weight of an image's own latent beside what its code recalls
    average: InnerShare = 0.999  # share of the running average that a step keeps

    name = "oh"

    def head(self, dim: int, bits: int) -> PerceptronHead:
        """An empty hash head."""
        return PerceptronHead(dim, bits, hidden=self.hidden)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`; an epoch's record has loss, its terms momentum and batch, and bit_balance."""
        return OhObjective(head, self)


class Encoder(nn.Module):
    """A hash head, and a latent head on the same hidden layer."""

    def __init__(self, head: StandardisedHead, *, hidden: int, d_z: int) -> None:
        super().__init__()
        self.head = head
        self.latent = nn.Linear(hidden, d_z)

    def forward(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Codes of ±1, float32 [n, bits], and latents of unit length, [n, d_z], of embeddings float32 [n, dim]."""
        hidden = self.head.hide(self.head.standardise(embeddings))
        chances = self.head.finish(hidden).sigmoid()
        return straight_through(2 * chances - 1), functional.normalize(self.latent(hidden), dim=1)


class Memory(Queue):
    """A queue whose entries are a code, and a latent with the image beside it."""

    def __init__(self, length: int, *, bits: int, d_z: int) -> None:
        super().__init__(length, bits=bits, d_z=2 * d_z)

    def held(self) -> tuple[Tensor, Tensor, Tensor]:
        """Copies of codes [N, bits], latents and images [N, d_z] of earlier steps; N grows from 0 to the length."""
        filled = min(self.count, len(self.codes))
        latents, images = self.latents[:filled].clone().chunk(2, dim=1)
        return self.codes[:filled].clone(), latents, images


class OhObjective(Objective):
    """Cross entropy of view 1 with view 2, among the images of a queue and within the batch."""

    def __init__(self, head: StandardisedHead, parameters: Oh) -> None:
        super().__init__()
        self.head = head
        self.loss = parameters
        self.encoder = Encoder(head, hidden=parameters.hidden, d_z=parameters.d_z)
        self.average = copy.deepcopy(self.encoder).requires_grad_(False)
        self.memory = Memory(parameters.queue, bits=head.bits, d_z=parameters.d_z)

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Loss, momentum and batch of two views, embeddings float32 [n, dim] each; view 2 joins the queue."""
        codes, latents, images = self.memory.held()
        queries = self.recall(self.encoder(first), (codes, latents))
        with torch.no_grad():
            self.follow()
            key_codes, key_latents = self.average(second)
            keys = self.recall((key_codes, key_latents), (codes, latents))
        self.memory.put(key_codes, torch.cat([key_latents, keys], dim=1))
        matches = queries @ keys.T / self.loss.tau_c
        queued = torch.cat([matches.diagonal()[:, None], queries @ images.T / self.loss.tau_c], dim=1)
        itself = torch.arange(len(first), device=first.device)
        momentum = functional.cross_entropy(queued, torch.zeros_like(itself))
        batch = functional.cross_entropy(matches, itself)
        return {"loss": momentum + batch, "momentum": momentum, "batch": batch}

    def follow(self) -> None:
        """Move the average's parameters towards the encoder's; at the first step they become equal."""
        share = 1 - self.loss.average if self.memory.count else 1.0
        for average, parameter in zip(self.average.parameters(), self.encoder.parameters(), strict=True):
            average.lerp_(parameter, share)

    def recall(self, seen: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor]) -> Tensor:
        """Images (p above), float32 [n, d_z] of unit length, from their codes and latents and those of the queue.

        Args:
            seen: codes of ±1, float32 [n, bits], and latents of unit length, float32 [n, d_z].
            held: the same of the queue, N of each; N may be 0.
        """
        codes, latents = seen
        shares = functional.softmax(affinity(codes, held[0]) / self.loss.tau_s, dim=1)
        recalled = functional.normalize(shares @ held[1], dim=1)
        return functional.normalize(recalled + self.loss.own * latents, dim=1)
