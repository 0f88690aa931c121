"""The one tree of errors a user may meet.

    NshError
    ├── ConfigError          params.yaml or an argument is wrong
    ├── DataError            a data set, folder, split or embedding is not what it must be
    │   ├── DownloadError    a file could not be fetched, or is not the file it should be
    │   └── UnreadableImage  one image cannot be decoded
    ├── TrainingError        a method cannot be trained on this data
    │   └── NonFiniteLoss    the loss became NaN or infinite
    ├── ExportError          the ONNX file does not do what the torch network does
    ├── CodesError           codes, encoder and index do not belong together
    │   ├── UnknownItem      the index has no item of this id
    │   └── IndexUnusable    an index cannot be read or changed where it lies
    │       ├── IndexMissing     there is none
    │       ├── IndexBusy        another process has been writing to it for too long
    │       ├── IndexReadOnly    it cannot be written to
    │       ├── IndexDamaged     it is not what was written
    │       ├── IndexFull        the disk has no room for the change
    │       └── IndexMisplaced   its file system cannot hold an index
    └── TrackingError        MLflow cannot record or find what was asked for

A message says what was found, what was allowed, and what to do.
"""


class NshError(Exception):
    """Base of every error that is the user's to mend; shown without a traceback."""


class ConfigError(NshError):
    """params.yaml or a command's argument is wrong."""


class DataError(NshError):
    """A data set, folder, split or embedding is not what it must be."""


class DownloadError(DataError):
    """A file could not be fetched, or is not the file it should be."""


class UnreadableImage(DataError):
    """One image cannot be decoded."""


class TrainingError(NshError):
    """A method cannot be trained on this data with these parameters."""


class NonFiniteLoss(TrainingError):
    """The loss became NaN or infinite."""


class ExportError(NshError):
    """The ONNX file does not do what the torch network does."""


class CodesError(NshError):
    """Codes, encoder and index do not belong together."""


class UnknownItem(CodesError):
    """The index has no item of this id."""


class IndexUnusable(CodesError):
    """An index cannot be read or changed where it lies."""


class IndexMissing(IndexUnusable):
    """There is no index."""


class IndexBusy(IndexUnusable):
    """Another process has been writing to the index for too long."""


class IndexReadOnly(IndexUnusable):
    """The index cannot be written to."""


class IndexDamaged(IndexUnusable):
    """The index is not what was written."""


class IndexFull(IndexUnusable):
    """The disk has no room for the change."""


class IndexMisplaced(IndexUnusable):
    """The file system that the index lies on cannot hold one: it has no locks, or none that can be trusted."""


class TrackingError(NshError):
    """MLflow cannot record or find what was asked for."""
