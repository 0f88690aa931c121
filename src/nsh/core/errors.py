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


class TrackingError(NshError):
    """MLflow cannot record or find what was asked for."""
