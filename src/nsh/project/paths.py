"""The paths of all files of a project. No other module spells these paths. Opens no file.

dvc.yaml spells them again, for DVC; a test compares the two.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsh.system.folders import CACHE

SPLIT_HEADER = "split.json"


@dataclass(frozen=True)
class Pair:
    """A method at one code length: one instance of the matrix in params.yaml."""

    method: str
    bits: int

    @property
    def key(self) -> str:
        """Name of its folders, of its DVC stages after the @, and of its run in MLflow."""
        return f"{self.method}-{self.bits}"


def pairs_of(methods: Iterable[str], bits: Sequence[int]) -> list[Pair]:
    """Every method at every code length, methods first."""
    return [Pair(method, length) for method in methods for length in bits]


@dataclass(frozen=True)
class PairFiles:
    """The files that the stages train to evaluate make for one pair.

    Attributes:
        folder: the project's.
        pair: whose they are.
    """

    folder: Path
    pair: Pair

    @property
    def model(self) -> Path:
        """The folder of the head, the encoder and their reports."""
        return self.folder / "models" / self.pair.key

    @property
    def head(self) -> Path:
        """The head's state dict."""
        return self.model / "head.pt"

    @property
    def backbone(self) -> Path:
        """The tensors of the backbone that fine-tuning changed."""
        return self.model / "backbone.pt"

    @property
    def history(self) -> Path:
        """One record an epoch or iteration of the training."""
        return self.model / "history.json"

    @property
    def encoder(self) -> Path:
        """The ONNX file that ships."""
        return self.model / "encoder.onnx"

    @property
    def parity(self) -> Path:
        """The result of the parity check."""
        return self.model / "parity.json"

    @property
    def codes(self) -> Path:
        """The folder of the folders "query" and "gallery" (see `nsh.core.manifest`)."""
        return self.folder / "codes" / self.pair.key

    @property
    def metrics(self) -> Path:
        """Figures and their protocol (see `nsh.project.results`)."""
        return self.folder / "metrics" / f"{self.pair.key}.json"

    @property
    def curves(self) -> Path:
        """The folder of the tables and the history (see `nsh.project.results`)."""
        return self.folder / "metrics" / "curves" / self.pair.key


@dataclass(frozen=True)
class Project:
    """A project's folder, by default the working folder."""

    folder: Path = Path()

    @property
    def raw(self) -> Path:
        """The folder of data sets as published, one folder each."""
        return self.folder / "data" / "raw"

    @property
    def weights(self) -> Path:
        """The folder of the backbone's published weights (see `nsh.backbones.weights`)."""
        return self.raw / "weights"

    @property
    def split(self) -> Path:
        """The folder of train, query and gallery (see `nsh.data.split`)."""
        return self.folder / "data" / "split"

    @property
    def split_header(self) -> Path:
        """The header of the split."""
        return self.split / SPLIT_HEADER

    @property
    def embed(self) -> Path:
        """The folder of embeddings (see `nsh.project.embeddings`)."""
        return self.folder / "data" / "embed"

    @property
    def audit(self) -> Path:
        """The folder of what was checked about the data (see `nsh.audit`)."""
        return self.folder / "data" / "audit"

    @property
    def reports(self) -> Path:
        """The folder of the table and the pictures."""
        return self.folder / "reports"

    @property
    def search(self) -> Path:
        """The folder that `nsh quickstart` fills: a code of every photo, their index, and what these were made by."""
        return self.folder / "search"

    def cache(self, stage: str) -> Path:
        """A stage's folder for files that are no outputs."""
        return self.folder / CACHE / stage

    def of(self, pair: Pair) -> PairFiles:
        """The files of one pair."""
        return PairFiles(self.folder, pair)
