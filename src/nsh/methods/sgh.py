"""SGH: bits from which a linear model reconstructs the image's embedding.

Dai, Guo, Kumar, He, Song, "Stochastic Generative Hashing", ICML 2017 (not the Scalable Graph Hashing of the same name).
Published: a bit is 1 with probability p = sigmoid(w x + c), drawn as [p > xi] with xi uniform; x is Gaussian around a
linear image U b of the bits; the loss is the description length, -log p(x, b) + log p(b | x), and its gradient passes
the draw as if b were p (the paper's distributional derivative, section 3.2). As released: 1/2 ||x' - x||^2 + alpha
times the cross entropy of the bits + beta/2 (||U||^2 + ||W||^2), alpha = beta = 1e-3, Adam 1e-2, batches of 500, 5,000
steps (read from doubling/Stochastic_Generative_Hashing; no code is copied). For encoding, xi = 1/2.

The cross entropy of the bits is -log p(b | x): the release adds what the paper subtracts. We follow the release; at
this weight it is about a fifty-thousandth of the loss.

Differences: x is the standardised embedding, so the decoder's scale is not learned separately. The release also trains
with xi = 1/2; here xi is uniform, as in the paper. Adam's rate is a tenth of theirs, for standardised embeddings.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise
from nsh.ranges import Count, Positive, Several, Weight


@dataclass(frozen=True, kw_only=True)
class Sgh(GradientMethod):
    """Dai et al., "Stochastic Generative Hashing", ICML 2017.

    Unlike the paper: Adam 1e-3 for 1e-2; 60 epochs, 1,200 steps of 10,000 images, for 5,000 steps.
    """

    epochs: Count = 60
    batch: Several = 500
    learning_rate: Positive = 1e-3
    alpha: Weight = 0.001  # weight of the codes' length
    beta: Weight = 0.001  # weight of the squared weights

    name = "sgh"

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`."""
        return SghObjective(head, data, self, seed=seed)


class SghObjective(CleanObjective):
    """Reconstruction + alpha * length of the code + beta * size of the weights, the mean over the images."""

    def __init__(self, head: StandardisedHead, data: TrainingData, parameters: Sgh, *, seed: int) -> None:
        super().__init__(head, data)
        self.decoder = nn.Linear(head.bits, head.dim)
        self.noise = Noise(seed=seed)
        self.alpha = parameters.alpha
        self.beta = parameters.beta

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss, reconstruction, length and size; bits of `inputs` reconstruct `targets`, float32 [n, dim]."""
        logits = self.head(inputs)
        bits = draw_bits(logits, self.noise.uniform(*logits.shape, device=logits.device))
        reconstruction = (self.decoder(bits) - self.head.standardise(targets)).square().sum() / (2 * len(inputs))
        length = functional.binary_cross_entropy_with_logits(logits, bits, reduction="sum") / len(inputs)
        weights = self.head.linear.weight, self.decoder.weight
        size = sum(weight.square().sum() for weight in weights) / (2 * len(inputs))
        loss = reconstruction + self.alpha * length + self.beta * size
        return {"loss": loss, "reconstruction": reconstruction, "length": length, "size": size}


def draw_bits(logits: Tensor, noise: Tensor) -> Tensor:
    """[sigmoid(logit) > noise], exactly 0 or 1, with the gradient of the sigmoid.

    Args:
        logits: float [n, bits].
        noise: xi, uniform in [0, 1), float [n, bits].
    """
    chance = logits.sigmoid()
    return (chance.detach() > noise).to(chance.dtype) + (chance - chance.detach())
