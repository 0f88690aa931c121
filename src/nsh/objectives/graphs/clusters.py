"""Clusters of images by k-means, for methods that name their number. Knows features, no loss."""

from torch import Tensor

from nsh.errors import TrainingError
from nsh.objectives.graphs.anchors import find_anchors, nearest_anchors


def find_clusters(features: Tensor, *, count: int, seed: int, name: str) -> tuple[Tensor, Tensor]:
    """Centres float64 [count, dim], and the cluster of every image, int64 [n].

    Args:
        features: float64 [n, dim].
        count: of clusters.
        seed: of the first centres.
        name: of the method's parameter that holds `count`, for the message.

    Raises:
        TrainingError: fewer different images than clusters.
    """
    try:
        centres = find_anchors(features, count=count, seed=seed)
    except TrainingError as error:
        raise TrainingError(
            f"found fewer than {count} different training images for {count} {name}: lower {name} or raise split.train"
        ) from error
    return centres, nearest_anchors(features, centres, count=1)[1].squeeze(1)
