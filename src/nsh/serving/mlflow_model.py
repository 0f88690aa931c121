"""An encoder as MLflow serves it: files of images in, codes out. Does not import MLflow, which names this module.

A packaged model carries this module and what it imports (`nsh.tracking.packaging`), so that a server needs no `nsh`.
"""

from collections.abc import Mapping, Sequence

from nsh.errors import UnreadableImage
from nsh.serving.encoder import Encoder


class ImageModel:
    """MLflow's python_function."""

    def __init__(self, path: str) -> None:
        self._encoder = Encoder(path)

    def predict(self, images: Mapping[str, Sequence[bytes]], params: object = None) -> list[dict[str, str | None]]:
        """The codes of image files, as the HTTP service gives them.

        Args:
            images: a table (pandas) whose column "image" holds files: JPEG, PNG, ...
            params: MLflow's; there are none.

        Returns:
            For each image "code", in hexadecimal, or "error", why it cannot be read; the other is None.
        """
        found = self._encoder.encode_each(list(images["image"]))
        return [
            {"code": None, "error": str(code)}
            if isinstance(code, UnreadableImage)
            else {"code": code.tobytes().hex(), "error": None}
            for code in found
        ]


def _load_pyfunc(path: str) -> ImageModel:
    """What MLflow calls, with the path of the ONNX file."""
    return ImageModel(path)
