"""Embeddings of queries and gallery along the directions that tell images apart (`nsh.core.metrics.directions`)."""

import numpy as np
from numpy.typing import NDArray

from nsh.core.metrics.directions import find_directions
from nsh.project.embeddings import Embeddings


def project_parts(embeddings: Embeddings) -> dict[str, NDArray[np.float32]]:
    """The projected embeddings of "query" and "gallery", float32 [n, directions], in the order of the split.

    Raises:
        DataError: embeddings are missing, or those of all training images are equal.
    """
    directions = find_directions(*embeddings.read_training())
    return {part: directions.project(embeddings.read(part)) for part in ("query", "gallery")}
