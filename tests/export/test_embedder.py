from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from nsh.backbones.pixels import ImageToEmbedding
from nsh.export.embedder import open_embedder
from nsh.export.graph import to_bytes


def test_on_the_cpu_the_embeddings_are_torchs(trained, backbone_model, photographs):
    embed = open_embedder(trained.backbone, to_bytes(backbone_model), device="cpu")
    with torch.inference_mode():
        expected = ImageToEmbedding(trained.backbone)(torch.from_numpy(photographs[:8])).numpy()
    found = embed(photographs[:8])
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()


def test_threads_that_call_at_once_change_no_bit(trained, backbone_model, photographs):
    embed = open_embedder(trained.backbone, to_bytes(backbone_model), device="cpu")
    batches = [photographs[start : start + 16] for start in range(0, 160, 16)]
    alone = [embed(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(embed, batches))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_cuda_the_embeddings_are_those_of_the_cpu(trained, backbone_model, photographs):
    model = to_bytes(backbone_model)
    found = open_embedder(trained.backbone, model, device="cuda")(photographs[:64])
    expected = open_embedder(trained.backbone, model, device="cpu")(photographs[:64])
    assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()
