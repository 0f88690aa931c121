"""All of params.yaml: the pipeline's blocks, reading, changing, and messages about mistakes."""

from collections.abc import Collection, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator

from nsh.config.block import Block, Place
from nsh.config.declarations import declared_data_sets
from nsh.config.methods import Methods
from nsh.core.tables import is_table
from nsh.errors import ConfigError
from nsh.ranges import Bits, Count, CountOrNone, Positive, Real, Seed, Several, Share, Truth, Weight, Whole
from nsh.system.files import expand_home


def _one_of(names: Collection[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"found {name}, allowed are {', '.join(names)}")
        return name

    return AfterValidator(check)


def _are_different(items: list[Any]) -> list[Any]:
    repeated = {str(item) for item in items if items.count(item) > 1}
    if repeated:
        raise ValueError(f"found {', '.join(sorted(repeated))} more than once")
    return items


MethodName = Annotated[str, _one_of(Methods.model_fields)]
DataSetName = Annotated[str, _one_of(declared_data_sets())]


class Matrix(Block):
    """The (method, bits) pairs that are trained and compared."""

    methods: Annotated[list[MethodName], Field(min_length=1), AfterValidator(_are_different)]
    bits: Annotated[list[Bits], Field(min_length=1), AfterValidator(_are_different)]


def _is_kind_of_labels(labels: str) -> str:
    if labels not in ("folder", "none") and not is_table(labels):
        raise ValueError(f"found {labels}, allowed are folder, none, or a file below dataset.root (.csv, .jsonl)")
    return expand_home(labels)


class DataSet(Block):
    """The images, and whether their folders or a file name their classes."""

    name: DataSetName
    root: Place
    exclude: list[str]
    labels: Annotated[str, AfterValidator(_is_kind_of_labels)]

    @model_validator(mode="after")
    def _only_a_folder_has_a_file_of_labels(self) -> "DataSet":
        if self.name != "folder" and is_table(self.labels):
            raise ValueError(f"labels: found {self.labels}, a file is for name: folder; {self.name} has its own labels")
        return self


class Split(Block):
    """The numbers of images in train, gallery and query; null means all there are."""

    train: Count | None
    gallery: Count | None
    query: Count | None
    draw: Literal["uniform", "per_class"]
    seed: Seed
    max_bad_share: Share


class Backbone(Block):
    """The frozen network, its weights and its input."""

    name: str
    weights: str
    image_size: Annotated[Whole, Field(ge=32, le=1024)]
    resample: Literal["bilinear", "bicubic", "lanczos"]


class Embed(Block):
    """The augmented views of the training images, and the batch of the embed stage."""

    views: Several
    seed: Seed
    batch: Count


class AuditLimit(Block):
    """The largest values of a check of the data without a warning, and without a stop; null: any."""

    warn: Weight | None
    stop: Weight | None

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "AuditLimit":
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(f"found warn {self.warn:g} and stop {self.stop:g}: warn may not be above stop")
        return self


class Audit(Block):
    """The checks of the data before anything trains on them (`nsh.audit`)."""

    near_duplicates: AuditLimit
    relevant_share: AuditLimit
    unmatched: AuditLimit
    imbalance: AuditLimit
    odd_sizes: AuditLimit


class Compute(Block):
    """Device and number of threads of all stages."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")]
    threads: Count


class FineTune(Block):
    """Training of the backbone together with a method (see `nsh.training.finetune.recipe`), and the number of ranks.

    `from` names the first block that learns; null: all learn (see `nsh.backbones.blocks`).
    """

    from_block: Annotated[str | None, Field(alias="from")]
    learning_rate: Positive
    batch_norm: Literal["frozen", "trained"]
    precision: Literal["fp32", "bf16"]
    channels_last: Truth
    compile: Truth
    clip: Positive | None
    average: Annotated[Real, Field(ge=0, lt=1)]
    held_out: CountOrNone
    patience: Count | None
    keep: Literal["best", "last"]
    checkpoint_minutes: Positive
    ranks: Count

    @model_validator(mode="after")
    def _activations_are_for_one_rank(self) -> "FineTune":
        if self.from_block is not None and self.ranks > 1:
            raise ValueError(f"from: found {self.from_block} with ranks: {self.ranks}, allowed is 1; or from: null")
        return self


class Train(Block):
    """Settings of training that all methods share."""

    mode: Literal["frozen", "finetune"]
    seed: Seed
    threads: Count
    finetune: FineTune


class Export(Block):
    """Precision of the encoder, and the loss against fp32 that is accepted (`nsh.export`)."""

    precision: Literal["fp32", "fp16", "int8"]
    calibration: Count
    max_mAP_drop: Share  # noqa: N815 - as the metrics write it
    warn_bit_flips: Share


class Encode(Block):
    """Settings of encoding."""

    batch: Count


class Evaluate(Block):
    """Settings of evaluation: the number of ranks that count."""

    k: Count


class Registry(Block):
    """How versions of registered encoders compete."""

    trial: Truth


class Params(Block):
    """All of params.yaml."""

    matrix: Matrix
    dataset: DataSet
    split: Split
    backbone: Backbone
    embed: Embed
    audit: Audit
    compute: Compute
    train: Train
    methods: Methods
    export: Export
    encode: Encode
    evaluate: Evaluate
    registry: Registry

    @model_validator(mode="after")
    def _methods_in_use_are_written(self) -> "Params":
        """Their defaults would do here, but DVC reads the file itself and wants every block that a stage depends on."""
        missing = [name for name in self.matrix.methods if name not in self.methods.model_fields_set]
        if missing:
            raise ValueError(
                f"matrix.methods has {', '.join(missing)}, of which methods has no block: run `nsh params defaults`, "
                f"or write `{missing[0]}: {{}}` there to take the defaults"
            )
        return self


class _Loader(yaml.SafeLoader):
    """Refuses a key that a block has twice, as DVC does: PyYAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: list[Any] = []
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"found {key.value!r} a second time", problem_mark=key.start_mark)
            seen.append(key.value)
        return super().construct_mapping(node, deep)


def read_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check params.yaml.

    Raises:
        ConfigError: the file cannot be read, is no YAML, or breaks a rule; every broken rule is named by its key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not here: run the command in the project's folder") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    return parse_params(text, source=str(path))


def parse_params(text: str, *, source: str) -> Params:
    """Check the text of params.yaml; `source` names it in messages.

    Raises:
        ConfigError: it is no YAML, has a key twice, or breaks a rule.
    """
    try:
        return _check(_Loader(text).get_single_data(), source=source)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not valid YAML: {error}") from error


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
        block: Any = values
        for name in blocks:
            block = block.setdefault(name, {}) if isinstance(block, dict) else None
        if not isinstance(block, dict):
            raise ConfigError(f"{key}: there is no such parameter, because {'.'.join(blocks)} is a value and no block")
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
    if mistake["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{key}: no such parameter"
    if mistake["type"] == "missing":
        return f"{key}: missing"
    if mistake["type"] == "value_error":
        return f"{key}: {mistake['ctx']['error']}"
    return f"{key}: found {mistake['input']!r}; {mistake['msg'][0].lower()}{mistake['msg'][1:]}"
