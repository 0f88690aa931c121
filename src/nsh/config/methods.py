"""The methods' blocks of params.yaml, one class a method. What the values do is said in the method's own file."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nsh.config.block import Block, Count, Positive, Real, Truth, Weight, Whole

Ablation = Literal[
    "none",
    "hard_sort",
    "no_quantisation",
    "decoding",
    "single_bottleneck",
    "no_softsort_codes",
    "no_softsort_latents",
    "multi_label_nce",
]
"""What is taken out of NSH (see `nsh.objectives.sorting.ablations`)."""


class Gradient(Block):
    """What the rivals that learn by gradient share (see `nsh.objectives.gradient`)."""

    epochs: Count
    batch: Annotated[Whole, Field(ge=2)]
    learning_rate: Positive


class SortedList(Gradient):
    """What methods share whose loss has positives at the head of a sorted list (see `nsh.objectives.sorting`)."""

    m: Count
    tau_c: Positive
    d_z: Count

    @model_validator(mode="after")
    def _positives_fit_the_batch(self) -> "SortedList":
        if self.m >= self.batch:
            raise ValueError(f"m = {self.m} positives leave no negative in a batch of {self.batch}: choose m < batch")
        return self


class Nsh(SortedList):
    """Naturally-Sorted Hashing (see `nsh.methods.nsh`)."""

    tau_s: Positive | Literal["d_b"]
    similarity: Literal["cosine", "product"]
    quantisation: Weight
    quantiser: Literal["norm", "squared", "mean"]
    hidden: Annotated[Whole, Field(ge=0)]
    symmetric: Truth
    init: Literal["random", "itq"]
    ablation: Ablation

    @model_validator(mode="after")
    def _itq_starts_a_linear_head(self) -> "Nsh":
        if self.init == "itq" and self.hidden:
            raise ValueError("init: itq cannot start a hidden layer: choose hidden: 0 or init: random")
        return self


class Itq(Block):
    """Iterative quantisation (see `nsh.methods.itq`)."""

    iterations: Count


class Lsh(Block):
    """Random hyperplanes (see `nsh.methods.lsh`): nothing to set."""


class Pcah(Block):
    """Signs of principal components (see `nsh.methods.pcah`): nothing to set."""


class Sh(Block):
    """Spectral hashing (see `nsh.methods.sh`): nothing to set."""


class CibHash(Gradient):
    """Contrastive information bottleneck (see `nsh.methods.cibhash`)."""

    hidden: Count
    temperature: Positive
    bottleneck: Weight


class GreedyHash(Gradient):
    """Cosine structure through the hard sign (see `nsh.methods.greedyhash`)."""

    penalty: Weight


class Mbe(Gradient):
    """Bi-half codes (see `nsh.methods.mbe`)."""

    gamma: Weight


class Sdc(Gradient):
    """Similarity distribution calibration (see `nsh.methods.sdc`)."""

    beta: Annotated[Real, Field(ge=1, allow_inf_nan=False)]
    quantisation: Weight


class Crovca(Gradient):
    """Cross-view code alignment (see `nsh.methods.crovca`)."""

    coding_rate: Weight
    epsilon: Positive


class Sgh(Gradient):
    """Stochastic generative hashing (see `nsh.methods.sgh`)."""

    alpha: Weight
    beta: Weight


class DeepBit(Gradient):
    """Rounding, balance, invariance (see `nsh.methods.deepbit`)."""

    balance: Weight
    invariance: Weight


class Mls3rduh(Gradient):
    """Targets from cosine and manifold (see `nsh.methods.mls3rduh`)."""

    images: Annotated[Whole, Field(ge=2)]
    share: Annotated[Real, Field(gt=0, le=1)]
    alpha: Annotated[Real, Field(gt=0, lt=1)]


class Tbh(Gradient):
    """Twin-bottleneck hashing (see `nsh.methods.tbh`)."""

    hidden: Count
    latent: Count


class AnchorBlock(Block):
    """What methods on an anchor graph share (see `nsh.objectives.graphs.anchors`)."""

    anchors: Count
    nearest: Count

    @model_validator(mode="after")
    def _neighbours_are_anchors(self) -> "AnchorBlock":
        if self.nearest > self.anchors:
            raise ValueError(f"nearest = {self.nearest} of {self.anchors} anchors: choose nearest <= anchors")
        return self


class Agh(AnchorBlock):
    """Anchor graph hashing (see `nsh.methods.agh`)."""

    layers: Literal[1, 2]


class Dgh(AnchorBlock):
    """Discrete graph hashing (see `nsh.methods.dgh`)."""

    rho: Weight


class Cimon(Gradient):
    """Weighted targets, views crossed (see `nsh.methods.cimon`)."""

    images: Annotated[Whole, Field(ge=2)]
    similar: Annotated[Real, Field(gt=0, lt=1)]
    clusters: Count
    contrast: Weight
    temperature: Positive


class NshPlus(SortedList):
    """NSH among neighbours (see `nsh.methods.nsh_plus`)."""

    tau_s: Positive
    queue: Count
    sorting: Weight
    temperature: Positive
    neighbours: Count
    directions: Count
    hidden: Count


class Methods(Block):
    """The parameters of every method, by name."""

    nsh: Nsh
    itq: Itq
    lsh: Lsh
    pcah: Pcah
    sh: Sh
    cibhash: CibHash
    greedyhash: GreedyHash
    mbe: Mbe
    sdc: Sdc
    crovca: Crovca
    sgh: Sgh
    deepbit: DeepBit
    mls3rduh: Mls3rduh
    tbh: Tbh
    agh: Agh
    dgh: Dgh
    cimon: Cimon
    nsh_plus: NshPlus
