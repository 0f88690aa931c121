"""The documents of requests and answers: requests are checked, answers are documented by OpenAPI."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_TEXT = 1024  # characters
MAX_COLUMNS = 64  # of one item's metadata
Id = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$", max_length=MAX_TEXT)]
Code = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F]{2,128}$")]
Logits = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=512)]
Identity = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=MAX_TEXT)]


_ORIGIN = "of the answer that the code or the logits are from: if another encoder answers now, it is a problem"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Query(_Strict):
    """What to search from, where it is no image: exactly one of code, id and logits."""

    code: Code | None = Field(None, description="a code in hexadecimal, most significant bit first")
    id: Id | None = Field(None, description="an item of the index")
    logits: Logits | None = Field(None, description="of an image, as an answer has them, one for each bit")
    encoder_identity: Identity | None = Field(None, description=_ORIGIN)


class NewItem(_Strict):
    """An item given by its code."""

    code: Code = Field(description="in hexadecimal, most significant bit first")
    metadata: dict[Text, Text] | None = Field(
        None, max_length=MAX_COLUMNS, description="in place of all it had; null leaves it"
    )
    encoder_identity: Identity | None = Field(None, description=_ORIGIN)


class Encoded(_Strict):
    """One image's code, or why it has none."""

    name: str | None = Field(None, description="the file name in the form")
    code: str | None = Field(None, description="in hexadecimal, most significant bit first")
    error: str | None = None


class Codes(_Strict):
    """Codes of the images, in their order."""

    encoder_identity: str
    bits: int
    results: list[Encoded]


class Neighbour(_Strict):
    """An item near the query."""

    id: str
    distance: int = Field(description="bits that differ")
    score: float | None = Field(None, description="with rerank: the higher, the nearer; in the unit of the logits")
    metadata: dict[str, Any]


class Neighbours(_Strict):
    """The nearest items, by distance (with rerank: by falling score), then by when they came into the index."""

    code: str = Field(description="the query's code in hexadecimal: search with it again without the image")
    logits: list[float] | None = Field(description="of the image, to search with them again; null for a code or an id")
    encoder_identity: str
    bits: int
    compared: int = Field(description="bits that distances and scores count: all, or the first as asked")
    version: int | None = Field(description="of the index that was searched; null: the engine has none")
    hits: list[Neighbour]


class Changed(_Strict):
    """What a change did."""

    changed: int
    items: int = Field(description="in the index now")
    encoder_identity: str
    version: int | None
    errors: list[Encoded] = Field(description="images that could not be decoded and were left out")


class Overlap(_Strict):
    """A search whose answer the shadow shares least."""

    overlap: float
    request_id: str


class ShadowReport(_Strict):
    """How the shadow compares with the encoder that answers, since that one does."""

    encoder_identity: str = Field(description='that answers; "" before the first search')
    shadow_identity: str
    shadow_items: int
    share: float = Field(description="of the searches by an image or an id that have hits")
    compared: int
    failed: int
    dropped: int = Field(description="left out because others were waiting")
    overlap: float | None = Field(description="mean share of an answer's hits that the shadow finds among as many")
    same_first_hit: float | None = Field(description="share of searches")
    seconds_median: float | None = Field(description="of the shadow's last 1000: decoding, inference and search")
    seconds_95_percent: float | None
    lowest: list[Overlap] = Field(description="the 10 with the smallest overlap; the log has their request_id")


class Limit(_Strict):
    """What one request may ask."""

    body_bytes: int
    pixels: int
    images: int
    hits: int
    requests_at_once: int
    seconds: float


class Info(_Strict):
    """What is served."""

    service: str
    encoder_identity: str
    method: str
    backbone: str
    bits: int = Field(description="of a code; fewer than the encoder's, if the index keeps the first of nested codes")
    lengths: list[int] = Field(description="bits by which a search can compare: of nested codes, and last all")
    image_size: int
    items: int
    version: int | None
    columns: list[str] = Field(description="of the metadata")
    thumbnails: bool
    writable: bool
    limits: Limit


class ProblemDocument(BaseModel):
    """RFC 9457; the list of types is in docs/operations.md."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
