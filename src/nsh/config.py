"""params.yaml as checked values: one model per block, unknown keys refused, every error at once.

It knows names, types and ranges; what the values do is written where they are used.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nsh.core.errors import ConfigError

Bits = Annotated[int, Field(ge=1, le=512)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Block(BaseModel):
    """Base of every block: no unknown key, no change after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Matrix(Block):
    """Which (method, bits) pairs are trained and compared."""

    methods: Annotated[list[str], Field(min_length=1)]
    bits: Annotated[list[Bits], Field(min_length=1)]


class DataSet(Block):
    """Which images, and whether their folders name their classes."""

    name: Literal["fashion-mnist", "cifar10", "folder"]
    root: Path
    labels: Literal["folder", "none"]


class Split(Block):
    """How many images learn, are searched, and search; null means all there are."""

    train: Count | None
    gallery: Count | None
    query: Count | None
    seed: Seed
    max_bad_share: Share


class Backbone(Block):
    """The frozen network, its weights and its input."""

    name: str
    weights: str
    image_size: Annotated[int, Field(ge=32, le=1024)]
    resample: Literal["bilinear", "bicubic", "lanczos"]


class Embed(Block):
    """How the training images are seen by the backbone."""

    views: Annotated[int, Field(ge=2)]
    seed: Seed
    batch: Count


class Compute(Block):
    """Where and how wide the numbers are crunched."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")]
    threads: Count


class Train(Block):
    """What every method shares in training."""

    seed: Seed
    threads: Count


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
"""What is taken out of NSH (see `nsh.methods.ablations`)."""


class Nsh(Block):
    """Naturally-Sorted Hashing (see `nsh.methods.nsh`)."""

    epochs: Count
    batch: Annotated[int, Field(ge=2)]
    learning_rate: Positive
    m: Count
    tau_s: Positive | Literal["d_b"]
    tau_c: Positive
    d_z: Count
    similarity: Literal["cosine", "product"]
    quantisation: Weight
    quantiser: Literal["norm", "squared", "mean"]
    hidden: Annotated[int, Field(ge=0)]
    symmetric: bool
    init: Literal["random", "itq"]
    ablation: Ablation

    @model_validator(mode="after")
    def _positives_fit_the_batch(self) -> "Nsh":
        if self.m >= self.batch:
            raise ValueError(f"m = {self.m} positives leave no negative in a batch of {self.batch}: choose m < batch")
        return self

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


class Gradient(Block):
    """What the rivals that learn by gradient share (see `nsh.methods.gradient`)."""

    epochs: Count
    batch: Annotated[int, Field(ge=2)]
    learning_rate: Positive


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

    beta: Annotated[float, Field(ge=1, allow_inf_nan=False)]
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

    images: Annotated[int, Field(ge=2)]
    share: Annotated[float, Field(gt=0, le=1)]
    alpha: Annotated[float, Field(gt=0, lt=1)]


class Tbh(Gradient):
    """Twin-bottleneck hashing (see `nsh.methods.tbh`)."""

    hidden: Count
    latent: Count


class AnchorBlock(Block):
    """What methods on an anchor graph share (see `nsh.methods.anchors`)."""

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

    images: Annotated[int, Field(ge=2)]
    similar: Annotated[float, Field(gt=0, lt=1)]
    clusters: Count
    contrast: Weight
    temperature: Positive


class NshPlus(Gradient):
    """NSH among neighbours (see `nsh.methods.nsh_plus`)."""

    m: Count
    tau_s: Positive
    tau_c: Positive
    d_z: Count
    queue: Count
    sorting: Weight
    temperature: Positive
    neighbours: Count
    directions: Count
    hidden: Count

    @model_validator(mode="after")
    def _positives_fit_the_batch(self) -> "NshPlus":
        if self.m >= self.batch:
            raise ValueError(f"m = {self.m} positives leave no negative in a batch of {self.batch}: choose m < batch")
        return self


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


class Export(Block):
    """How precise the shipped encoder is, and how much worse than fp32 it may be and still pass (`nsh.export`)."""

    precision: Literal["fp32", "fp16", "int8"]
    calibration: Count
    max_bit_flips: Share
    max_mAP_drop: Share  # noqa: N815 - as the metrics write it


class Encode(Block):
    """How images become codes."""

    batch: Count


class Evaluate(Block):
    """How far down the ranking is looked at."""

    k: Count


class Params(Block):
    """params.yaml, whole."""

    matrix: Matrix
    dataset: DataSet
    split: Split
    backbone: Backbone
    embed: Embed
    compute: Compute
    train: Train
    methods: Methods
    export: Export
    encode: Encode
    evaluate: Evaluate

    @model_validator(mode="after")
    def _methods_are_known(self) -> "Params":
        known = list(Methods.model_fields)
        unknown = [method for method in self.matrix.methods if method not in known]
        if unknown:
            raise ValueError(f"matrix.methods: found {', '.join(unknown)}, allowed are {', '.join(known)}")
        return self


def read_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check params.yaml.

    Raises:
        ConfigError: the file is missing, is no YAML, or breaks a rule; every broken rule is named by its key.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not here: run the command in the project's folder") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    return _check(values, source=str(path))


def change(params: Params, changes: Mapping[str, Any]) -> Params:
    """The same parameters with other values, named by dotted keys as for `dvc exp run -S`.

    Args:
        params: stay as they are.
        changes: {"methods.nsh.tau_c": 0.2, ...}.

    Raises:
        ConfigError: there is no such key, or the values break a rule.
    """
    values = params.model_dump(mode="json")
    for key, value in changes.items():
        *blocks, last = key.split(".")
        block = values
        for name in blocks:
            block = block.setdefault(name, {})
        block[last] = value
    return _check(values, source=", ".join(f"{key}={value}" for key, value in changes.items()))


def _check(values: Any, *, source: str) -> Params:
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source} has {error.error_count()} mistake(s):\n" + _list_mistakes(error)) from error


def _list_mistakes(error: ValidationError) -> str:
    return "\n".join(f"  {_describe(mistake)}" for mistake in error.errors())


def _describe(mistake: Any) -> str:
    key = ".".join(str(part) for part in mistake["loc"]) or "params"
    if mistake["type"] == "extra_forbidden":
        return f"{key}: no such parameter"
    if mistake["type"] == "missing":
        return f"{key}: missing"
    if mistake["type"] == "value_error":
        return f"{key}: {mistake['ctx']['error']}"
    return f"{key}: found {mistake['input']!r}; {mistake['msg'][0].lower()}{mistake['msg'][1:]}"
