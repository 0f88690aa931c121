"""NSH's heads at the published readings, pinned by digests: a change of the code that moves a bit of them is seen.

What they should be is tested elsewhere, against loops written from the paper (test_sorted_nce.py, test_softsort.py,
test_nsh.py). A digest that changes with the mathematics, or with a new torch, is taken over from the failure.
"""

import hashlib
import json

import pytest

from nsh.methods import create
from nsh.objectives.heads.linear import to_bytes
from nsh.system.kernels import are_fixable
from nsh.training.loop import CachedViewLoop
from nsh.training.reproducible import reproducible

PARAMETERS = {
    "epochs": 3,
    "batch": 12,
    "learning_rate": 1e-3,
    "tau_c": 0.1,
    "d_z": 16,
    "similarity": "cosine",
    "quantisation": 1.0,
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "ablation": "none",
}
PAPER = {"init": "random", "m": 2, "tau_s": 0.1}
PINNED = {
    "default": ({"init": "itq", "m": 3, "tau_s": 0.1}, "a8e9f6fa36c8a9e7", "4819c66d422217f0"),
    "paper": (PAPER, "539bf46597ddf84b", "e85d60da206c6495"),
    "literal": (PAPER | {"tau_s": "d_b"}, "2b89100cabc24b75", "ee1f8c8a243f3a17"),
}
"""What is changed, and the beginnings of the digests of head and history."""


@pytest.mark.skipif(not are_fixable(), reason="heads are the same bytes on x86-64 with AVX2")
@pytest.mark.parametrize("name", PINNED)
def test_the_published_readings_give_the_heads_they_gave(name, draw_clusters, tmp_path):
    changes, head_digest, history_digest = PINNED[name]
    method, history = create("nsh", PARAMETERS | changes), []
    with reproducible(1):
        loop = CachedViewLoop(cache=tmp_path, threads=1)
        data = draw_clusters(count=96, dim=20)
        head = method.fit(data, bits=8, seed=4, report=history.append, loop=loop)
    assert len(history) == PARAMETERS["epochs"]
    found = [hashlib.sha256(content).hexdigest()[:16] for content in (to_bytes(head), json.dumps(history).encode())]
    assert found == [head_digest, history_digest]
