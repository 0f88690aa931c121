"""DVB: a conditional variational model of codes given features, whose latents follow pseudo-centres.

Shen, Liu, Shao, "Unsupervised Deep Generative Hashing", BMVC 2017 (Deep Variational Binaries); also "Unsupervised
Binary Representation Learning with Deep Variational Networks", IJCV 2019. Published, on frozen features x: the code b
has a latent z between it and x. A prior p(z|x), a posterior q(z|x, b) and a decoder p(b|x, z), each a network with two
hidden layers of 1024, are trained by the bound log p(b|x) >= E log p(b|x, z) - KL(q(z|x, b) || p(z|x)). The prior's
mean is drawn to the pseudo-centre of the image, a centre of clusters of the features. Further losses draw neighbours'
latents together and keep bits independent. Adam, 1e-4, batches of 200, 40 epochs of 59,000 images.

The text's formulas were not at hand. Networks and terms are read from the authors' drawings and unfinished scratch code
(ymcidence/DVB and ymcidence/VAEBinaryCode; no code is copied). With a Gaussian decoder log p(b|x, z) is a quantisation
error, b the sign of the decoder's output h = tanh of the logits; z is drawn from the prior, for which the bound holds
as well. The adjacency is of the 9 nearest images of the batch. At test time z is the prior's mean.

What we corrected of the scratch: independence compares the bits' correlations [bits, bits] with the identity, where the
scratch compares the images' [n, n]; the divergence has its constant's right sign; one log-variance serves both for
drawing and for the divergence. Terms are means over images and entries, because sums would depend on the batch.

Differences: the networks, their latents and the number of steps are smaller (`hidden`, `latent`; 11,800 steps
published), and Adam's rate is 1e-3, to fit into two minutes of one core; embeddings are standardised; logits are
normalised over the batch, because no term keeps a single bit from being constant; layers start uniform; no weight
decay; log-variances are limited to [-8, 0], so that no ratio of variances overflows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from nsh.objectives.base import Objective, TrainingData
from nsh.objectives.closed_forms.rotation import principal_directions
from nsh.objectives.gradient import CleanObjective, GradientMethod
from nsh.objectives.graphs.clusters import find_clusters
from nsh.objectives.graphs.neighbours import nearest
from nsh.objectives.heads.binary import sign
from nsh.objectives.heads.linear import StandardisedHead
from nsh.objectives.noise import Noise
from nsh.ranges import Count, Positive, Several, Weight

NEIGHBOURS = 9  # of an image in its batch; the authors'
LEAST_LOG_VARIANCE = -8.0  # of a latent in (0, 1)


class VariationalHead(StandardisedHead):
    """Two networks of two hidden layers: the prior's mean z of an embedding x, and the normalised logits of [x, z]."""

    def __init__(self, dim: int, bits: int, *, hidden: int, latent: int) -> None:
        super().__init__(dim, bits, width=hidden)
        self.prior = make_layers(dim, hidden)
        self.centre = nn.Linear(hidden, latent)
        self.decoder = make_layers(dim + latent, hidden)
        self.balance = nn.BatchNorm1d(bits, affine=False)

    def locate(self, prior: Tensor) -> Tensor:
        """The prior's mean, float32 [n, latent] in (0, 1), of its hidden layer, float32 [n, hidden]."""
        return self.centre(prior).sigmoid()  # type: ignore[no-any-return]

    def decode(self, inputs: Tensor, latents: Tensor) -> Tensor:
        """Logits float32 [n, bits] of standardised embeddings [n, dim] and latents [n, latent]."""
        return self.balance(self.finish(self.decoder(torch.cat([inputs, latents], dim=1))))  # type: ignore[no-any-return]

    def forward(self, embeddings: Tensor) -> Tensor:
        """Logits float32 [n, bits] of embeddings float32 [n, dim]."""
        inputs = self.standardise(embeddings)
        return self.decode(inputs, self.locate(self.prior(inputs)))


@dataclass(frozen=True, kw_only=True)
class Dvb(GradientMethod):
    """Shen et al., "Unsupervised Deep Generative Hashing" (DVB), BMVC 2017.

    Unlike the paper: hidden layers of 512 for 1024; Adam 1e-3 for 1e-4; 8 epochs, 400 steps of 10,000 images, for
    11,800 steps.
    """

    epochs: Count = 8
    batch: Several = 200
    learning_rate: Positive = 1e-3
    hidden: Count = 512  # length of each network's two hidden layers
    latent: Count = 256  # length of the latent
    centres: Count = 64  # clusters, whose centres latents are drawn to
    quantisation: Weight = 0.8  # weight of the decoder's likelihood
    independence: Weight = 1.0  # weight of the bits' independence
    adjacency: Weight = 1.0  # weight of the neighbours' similarity
    attraction: Weight = 1.0  # weight of the distance to the pseudo-centre

    name = "dvb"

    def head(self, dim: int, bits: int) -> VariationalHead:
        """An empty hash head."""
        return VariationalHead(dim, bits, hidden=self.hidden, latent=self.latent)

    def build(self, head: StandardisedHead, data: TrainingData, *, seed: int) -> Objective:
        """The objective around `head`.

        Raises:
            TrainingError: fewer different images than centres.
        """
        features = torch.from_numpy(data.features)
        centres = find_centres(features, count=self.centres, length=self.latent, seed=seed)
        return DvbObjective(head, data, centres, self, seed=seed)


class DvbObjective(CleanObjective):
    """Quantisation + divergence + independence + adjacency + attraction, each times its weight."""

    head: VariationalHead
    centres: Tensor

    def __init__(
        self, head: StandardisedHead, data: TrainingData, centres: Tensor, parameters: Dvb, *, seed: int
    ) -> None:
        super().__init__(head, data)
        self.register_buffer("centres", centres, persistent=False)
        self.prior_spread = nn.Linear(parameters.hidden, parameters.latent)
        self.posterior = make_layers(head.dim + head.bits, parameters.hidden)
        self.posterior_centre = nn.Linear(parameters.hidden, parameters.latent)
        self.posterior_spread = nn.Linear(parameters.hidden, parameters.latent)
        self.noise = Noise(seed=seed)
        self.weights = {
            "quantisation": parameters.quantisation,
            "divergence": 1.0,
            "independence": parameters.independence,
            "adjacency": parameters.adjacency,
            "attraction": parameters.attraction,
        }

    def targets(self, rows: Tensor) -> Tensor:
        """The images' stored features, and their pseudo-centres behind them: float32 [n, dim + latent]."""
        return torch.cat([self.features[rows], self.centres[rows]], dim=1)

    def terms(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Loss and its five terms of embeddings, float32 [n, dim], with `targets` as above."""
        features, centres = targets[:, : self.head.dim], targets[:, self.head.dim :]
        seen = self.head.standardise(inputs)
        prior = self.infer_prior(seen)
        latents = draw_normal(*prior, noise=self.noise)
        codes = self.head.decode(seen, latents).tanh()
        terms = {
            "quantisation": (codes - sign(codes)).square().mean(),
            "divergence": divergence(self.infer_posterior(seen, codes), prior),
            "independence": correlation(codes),
            "adjacency": disagreement(latents, adjacency(features, neighbours=NEIGHBOURS)),
            "attraction": (latents - centres).square().mean(),
        }
        return {"loss": torch.stack([self.weights[name] * term for name, term in terms.items()]).sum(), **terms}

    def infer_prior(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances of p(z|x), float32 [n, latent] each, of standardised embeddings [n, dim]."""
        hidden = self.head.prior(seen)
        return self.head.locate(hidden), limit(self.prior_spread(hidden))

    def infer_posterior(self, seen: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances of q(z|x, b), float32 [n, latent] each; b is relaxed, float32 [n, bits]."""
        hidden = self.posterior(torch.cat([seen, codes], dim=1))
        return self.posterior_centre(hidden).sigmoid(), limit(self.posterior_spread(hidden))


def make_layers(inputs: int, hidden: int) -> nn.Sequential:
    """Two hidden layers: float [n, inputs] to float [n, hidden] >= 0."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())


def limit(outputs: Tensor) -> Tensor:
    """Log-variances in (-8, 0) of a layer's outputs, which start near 0 in the middle."""
    return LEAST_LOG_VARIANCE * outputs.sigmoid()


def draw_normal(centre: Tensor, log_variance: Tensor, *, noise: Noise) -> Tensor:
    """A draw from the normal distribution of each entry, float [n, d], with its gradient to both parameters."""
    uniform = noise.uniform(*centre.shape, device=centre.device).to(centre.dtype)
    normal = torch.special.ndtri(uniform.clamp_min(torch.finfo(torch.float32).eps / 4))  # 0 would be infinite
    drawn: Tensor = centre + (log_variance / 2).exp() * normal
    return drawn


def divergence(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
    """KL(one || other) of normal distributions, mean over images and dimensions.

    Args:
        one: means and log-variances, float [n, d] each.
        other: the same of the distribution that it is compared with.
    """
    (centre, spread), (other_centre, other_spread) = one, other
    ratio = (spread.exp() + (centre - other_centre).square()) / other_spread.exp()
    return (other_spread - spread + ratio - 1).mean() / 2


def correlation(codes: Tensor) -> Tensor:
    """Mean squared entry of H^T H / n - I, of codes H float [n, bits]: 0 for balanced independent bits of +-1."""
    products = codes.T @ codes / len(codes)
    return (products - torch.eye(codes.shape[1], dtype=codes.dtype, device=codes.device)).square().mean()


def adjacency(features: Tensor, *, neighbours: int) -> Tensor:
    """D^-1/2 M D^-1/2, M_ij = 1 if i is among the nearest images of j by cosine or j of i, D its row sums.

    Args:
        features: float [n, dim]; n >= 2.
        neighbours: of an image, at most n - 1 count.

    Returns:
        float [n, n], symmetric, 0 on the diagonal.
    """
    rows = nearest(features, count=min(neighbours, len(features) - 1))
    edges = torch.zeros(len(features), len(features), dtype=features.dtype, device=features.device)
    edges.scatter_(1, rows, 1.0)
    edges = torch.maximum(edges, edges.T)
    scale = edges.sum(dim=1).rsqrt()
    return scale[:, None] * edges * scale


def disagreement(latents: Tensor, edges: Tensor) -> Tensor:
    """-1/n sum_ij A_ij cos(z_i, z_j) of latents float [n, d] and A float [n, n]."""
    unit = functional.normalize(latents, dim=1)
    return -(edges * (unit @ unit.T)).sum() / len(latents)


def find_centres(features: Tensor, *, count: int, length: int, seed: int) -> Tensor:
    """The pseudo-centre of each image: the centre of its cluster in `length` principal directions, scaled to [0, 1].

    Args:
        features: float32 [n, dim].
        count: of clusters.
        length: of a centre; with fewer directions than that, the rest is 1/2.
        seed: of the clusters.

    Returns:
        float32 [n, length].

    Raises:
        TrainingError: fewer different images than clusters.
    """
    centred = features.double() - features.double().mean(dim=0)
    projected = centred @ principal_directions(centred, count=min(length, centred.shape[1]))
    centres, members = find_clusters(projected, count=count, seed=seed, name="centres")
    lowest, highest = centres.min(), centres.max()
    own = (centres[members] - lowest) / (highest - lowest).clamp_min(torch.finfo(centres.dtype).tiny)
    return functional.pad(own, (0, length - own.shape[1]), value=0.5).float()
