"""The heads that users have on their disks: what a head.pt holds, by name and in order, stays what it was.

The order counts beside the names: layers are drawn from the seed in the order in which a head holds them.
"""

from pathlib import Path

import pytest

from nsh.config import read_params
from nsh.methods import create

PARAMETERS = read_params(Path(__file__).parents[2] / "params.yaml").methods.model_dump()
UNIT = ["linear.weight", "linear.bias"]
STANDARDISED = ["mean", "scale", *UNIT]
PERCEPTRON = [*STANDARDISED, "hidden.weight", "hidden.bias"]
STATISTICS = ["balance.running_mean", "balance.running_var", "balance.num_batches_tracked"]
BALANCED = [*PERCEPTRON, "balance.weight", "balance.bias", *STATISTICS]
WHITENED = ["mean", "scale", "directions", *UNIT, "hidden.weight", "hidden.bias", *STATISTICS]
CRITIC = [*STANDARDISED, "first.weight", "first.bias", "second.weight", "second.bias"]
NETWORKS = [
    f"{name}.{kind}"
    for name in ("prior.0", "prior.2", "centre", "decoder.0", "decoder.2")
    for kind in ("weight", "bias")
]
ANCHORS = ["anchors", "width", "projection"]
KEYS = {
    **dict.fromkeys(["itq", "lsh", "pcah", "sh", "hashing_baseline"], UNIT),
    **dict.fromkeys(["nsh", "cimon", "date", "deepbit", "distillhash", "greedyhash"], STANDARDISED),
    **dict.fromkeys(["mbe", "mls3rduh", "sgh", "bgan"], STANDARDISED),
    **dict.fromkeys(["cibhash", "tbh", "oh"], PERCEPTRON),
    **dict.fromkeys(["crovca", "sdc"], BALANCED),
    **dict.fromkeys(["bingan", "hashgan"], CRITIC),
    **dict.fromkeys(["nsh_plus", "nsh_nested"], WHITENED),
    "dvb": [*STANDARDISED, *NETWORKS, *STATISTICS],
    "agh": [*ANCHORS, "above", "below"],
    "dgh": ANCHORS,
}


@pytest.mark.parametrize(
    ("name", "changes", "keys"),
    [(name, {}, keys) for name, keys in KEYS.items()]
    + [("nsh", {"hidden": 8, "init": "random"}, PERCEPTRON), ("agh", {"layers": 1}, ANCHORS)],
)
def test_a_head_s_state_has_the_names_and_the_order_it_had(name, changes, keys):
    assert list(create(name, PARAMETERS[name] | changes).head(24, 16).state_dict()) == keys
