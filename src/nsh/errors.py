"""The tree of errors that a user can cause.

    NshError
    ├── ConfigError          params.yaml or an argument is wrong
    ├── DataError            a data set, folder, split or embedding is wrong or missing
    │   ├── DownloadError    a file could not be fetched, or is not the file it should be
    │   └── UnreadableImage  one image cannot be decoded
    ├── TrainingError        a method cannot be trained on this data
    │   └── NonFiniteLoss    the loss became NaN or infinite
    ├── ExportError          the ONNX file does not compute what the torch network computes
    ├── CodesError           codes, encoder and index do not belong together
    │   ├── UnknownItem      the index has no item with this id
    │   └── IndexUnusable    an index cannot be read or changed
    │       ├── IndexMissing     there is no index
    │       ├── IndexBusy        another process has been writing to it for too long
    │       ├── IndexReadOnly    it cannot be written
    │       ├── IndexDamaged     it is not what was written
    │       ├── IndexFull        the disk is full
    │       ├── IndexReplaced    another index has taken its place
    │       └── IndexMisplaced   its file system cannot hold an index
    ├── ClusterError         machines that should work together do not answer, do not fit, or were lost
    ├── SignatureError       a file is not what somebody whom you trust has signed
    └── TrackingError        MLflow cannot record or find the result

A message says what was found, what was allowed, and what to do.
"""


class NshError(Exception):
    """Base of all errors that a user can cause and correct; shown without a traceback."""


class ConfigError(NshError):
    """params.yaml or a command's argument is wrong."""


class DataError(NshError):
    """A data set, folder, split or embedding is wrong or missing."""


class DownloadError(DataError):
    """A file could not be fetched, or is not the file it should be."""


class UnreadableImage(DataError):
    """One image cannot be decoded."""


class TrainingError(NshError):
    """A method cannot be trained on this data with these parameters."""


class NonFiniteLoss(TrainingError):
    """The loss became NaN or infinite."""


class ExportError(NshError):
    """The ONNX file does not compute what the torch network computes."""


class CodesError(NshError):
    """Codes, encoder and index do not belong together."""


class UnknownItem(CodesError):
    """The index has no item with this id."""


class IndexUnusable(CodesError):
    """An index cannot be read or changed."""


class IndexMissing(IndexUnusable):
    """There is no index."""


class IndexBusy(IndexUnusable):
    """Another process has been writing to the index for too long."""


class IndexReadOnly(IndexUnusable):
    """The index cannot be written."""


class IndexDamaged(IndexUnusable):
    """The index is not what was written."""


class IndexFull(IndexUnusable):
    """The disk is too full for the change."""


class IndexReplaced(IndexUnusable):
    """Another index has taken its place."""


class IndexMisplaced(IndexUnusable):
    """The index is on a file system without reliable locks."""


class ClusterError(NshError):
    """Machines that should work together do not answer, do not fit together, or were lost."""


class SignatureError(NshError):
    """A file is not what somebody whom you trust has signed."""


class TrackingError(NshError):
    """MLflow cannot record or find the result."""
