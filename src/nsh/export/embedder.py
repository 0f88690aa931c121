"""Runs the frozen backbone: its ONNX graph with onnxruntime on the CPU, torch on CUDA.

Knows nothing of the images or the use of the embeddings.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from nsh.backbones.networks import Backbone
from nsh.backbones.pixels import ImageToEmbedding
from nsh.serving.session import open_session

Embed = Callable[[NDArray[np.uint8]], NDArray[np.float32]]
"""Images uint8 [n, S, S, 3] to embeddings float32 [n, d]; may be called by several threads at once."""


def open_embedder(backbone: Backbone, graph: bytes, *, device: str) -> Embed:
    """Make the backbone callable.

    Args:
        backbone: the network.
        graph: the same network, from `nsh.export.graph.export_backbone`.
        device: "cpu", "cuda" or "cuda:<n>".
    """
    return _on_cpu(graph) if device == "cpu" else _on_cuda(backbone, torch.device(device))


def _on_cpu(graph: bytes) -> Embed:
    """Use one thread a call; callers call from as many threads as they have cores.

    So no thread spins inside an operator, decoding overlaps inference, and the embeddings do not depend on the number
    of threads.
    """
    session = open_session(graph, threads=1)

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        embeddings: NDArray[np.float32] = session.run(["embedding"], {"image": images})[0]
        return embeddings

    return embed


def _on_cuda(backbone: Backbone, device: torch.device) -> Embed:
    torch.backends.cudnn.allow_tf32 = False  # with 10 bits of mantissa embeddings would differ from the shipped graph's
    torch.backends.cudnn.deterministic = True
    network = ImageToEmbedding(backbone).to(device)

    def embed(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            embeddings: NDArray[np.float32] = network(torch.from_numpy(images).to(device)).cpu().numpy()
        return embeddings

    return embed
