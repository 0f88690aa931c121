"""BGAN on features: codes from which a generator makes images anew, and which keep a graph of neighbours.

Song, He, Gao, Xu, Hanjalic, Shen, "Binary Generative Adversarial Networks for Image Retrieval", AAAI 2018. Published:
an encoder, VGG-19 with a last layer of one output a bit, a = its logits, h = tanh(s a); the slope s grows in stages, so
that the activation becomes the sign by continuation; a generator makes an image of 64 pixels a side from h, and a
critic tells made images from real ones. Two images are similar (S = 1, else -1) if they share enough neighbours
(`nsh.objectives.graphs.neighbourhoods`). The encoder minimises 10 (L_N + L_Q) + 3.33 L_C: L_N is the mean over pairs of
(h_i h_j / bits - S_ij)^2, L_Q the mean of (h - sign h)^2, L_C the mean squared difference of what the critic's last
hidden layer sees in an image and in its copy. The generator minimises 3.33 L_C - log D(copy). Adam, 1e-3 with an
epsilon of 1, batches of 40, 51 epochs on 10,000 images. Details are read from htconquer/BGAN; no code is copied.

On features: the backbone is frozen and the encoder is one linear layer on standardised embeddings; generator and critic
make and judge standardised embeddings with two hidden layers each. The objective is the same; that images look real is
not asked.

Readings: the copy is made of the code h, as the abstract says; the released program makes it of h and of noise, and the
critic's fakes of noise alone, and has no loss between image and copy, which an earlier state of it and this one have.
So the critic's judgement reaches the encoder, too. L_N is divided by the bits, without which S cannot be reached. The
slope has the five stages of an earlier state; it is constant in the release. Adam has its usual epsilon. The critic's
losses are computed from logits and need no limits. At most `images` training images are used, because the graph is
dense. Of the published 51 epochs 4 are left: 12 retrieved less (docs/experiments.md).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.adversarial.elapsed import Elapsed
from nsh.objectives.adversarial.failures import AdversarialMethod, watch_codes
from nsh.objectives.adversarial.game import criticise, deceive, frozen, stack, watch_critic
from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, draw_images
from nsh.objectives.graphs.neighbourhoods import similar_images
from nsh.objectives.heads.binary import sign
from nsh.objectives.heads.linear import StandardisedHead
from nsh.ranges import Count, Positive, Several, Weight

SLOPES = (1.0, 2.5, 5.0, 7.5, 10.0)  # of the activation, in five stages of equal length


@dataclass(frozen=True, kw_only=True)
class Bgan(AdversarialMethod):
    """Song et al., "Binary Generative Adversarial Networks", AAAI 2018, on features.

    Unlike the paper: a linear layer for VGG-19, embeddings for pixels; 4 epochs, 312 steps of 10,000 images, for
    12,750.
    """

    epochs: Count = 4
    batch: Several = 128
    learning_rate: Positive = 1e-3
    images: Several = 10000  # trained on at most, drawn at random: the graph of all pairs is dense
    near: Count = 20  # images by cosine in an image's neighbourhood
    alike: Count = 30  # images with the most similar neighbourhoods, whose neighbours are similar
    neighbourhood: Weight = 10.0  # weight of the graph and of the quantisation
    content: Weight = 3.33  # weight of the difference that the critic sees between an image and its copy
    copy: Weight = 1.0  # weight of the difference between an image and its copy
    hidden: Several = 256  # length of the longer hidden layer of generator and critic; the other has half of it

    name = "bgan"

    def select(self, data: TrainingData, *, seed: int) -> TrainingData:
        """At most `images` training images."""
        return draw_images(data, count=self.images, seed=seed)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        similar = similar_images(torch.from_numpy(data.features), near=self.near, alike=self.alike)
        return BganObjective(head, data, self, similar=similar)


class BganObjective(CleanObjective):
    """Codes that keep the graph, and a generator and a critic of copies of embeddings."""

    similar: Tensor

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Bgan, *, similar: Tensor) -> None:
        super().__init__(head, data)
        wide, narrow = parameters.hidden, parameters.hidden // 2
        self.generator = stack([head.bits, narrow, wide, head.dim], nn.ELU)
        self.look = nn.Sequential(nn.Linear(head.dim, wide), nn.ELU(), nn.Linear(wide, narrow), nn.ELU())
        self.judge = nn.Linear(narrow, 1)
        self.elapsed = Elapsed(parameters, data)
        self.weights = parameters
        self.register_buffer("similar", similar, persistent=False)

    def targets(self, rows: Tensor) -> Tensor:
        """`rows` themselves, int64 [n]: the images' stored features and their places in the graph."""
        return rows

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The losses of the embeddings `inputs`, float32 [n, dim], of the images in the rows `targets`, int64 [n]."""
        logits = self.head(inputs)
        codes = (slope(self.elapsed.next()) * logits).tanh()
        signs = torch.where(self.similar[targets][:, targets], 1.0, -1.0)
        graph, quantisation = neighbourhood(codes, signs), (codes - sign(codes)).square().mean()
        real = self.head.standardise(self.features[targets])
        losses = self.play(real, self.generator(codes))
        encoder = self.weights.neighbourhood * (graph + quantisation)
        return {
            "loss": encoder + losses.pop("game"),
            "graph": graph,
            "quantisation": quantisation,
            **losses,
            **watch_codes(self.head, inputs),
        }

    def play(self, real: Tensor, made: Tensor) -> dict[str, Tensor]:
        """The weighted losses of generator and critic, "game", and their terms.

        Args:
            real: standardised embeddings, float32 [n, dim].
            made: the generator's copies of them.
        """
        seen, apart = self.look(real), self.judge(self.look(made.detach()))
        critic = criticise(self.judge(seen), apart)
        with frozen(self.look, self.judge):
            seen_made = self.look(made)
            fooling = deceive(self.judge(seen_made))
        content = functional.mse_loss(seen_made, seen.detach())
        copy = functional.mse_loss(made, real)
        game = critic + fooling + self.weights.content * content + self.weights.copy * copy
        return {
            "game": game,
            "content": content,
            "copy": copy,
            "critic": critic,
            "generator": fooling,
            **watch_critic(self.judge(seen), apart),
        }


def slope(elapsed: float) -> float:
    """The slope of the activation after the share `elapsed`, in [0, 1], of the training."""
    return SLOPES[min(int(elapsed * len(SLOPES)), len(SLOPES) - 1)]


def neighbourhood(codes: Tensor, signs: Tensor) -> Tensor:
    """L_N: mean over all pairs, an image with itself among them, of (h_i h_j / bits - S_ij)^2.

    Args:
        codes: h, float [n, bits] in [-1, 1].
        signs: S, 1 for similar images and -1 for others, float [n, n].
    """
    return (codes @ codes.T / codes.shape[1] - signs).square().mean()
