"""The look at an objective before it is trained leaves no trace in it."""

import pytest
import torch
from tests.training.finetune.tiny import BITS, NSH

from nsh.core.errors import TrainingError
from nsh.methods import create
from nsh.methods.ablations import ABLATIONS
from nsh.training.finetune.suitable import require_both_views

CROVCA = {"epochs": 1, "batch": 6, "learning_rate": 1e-3, "coding_rate": 0.1, "epsilon": 0.05}
SGH = {"epochs": 1, "batch": 6, "learning_rate": 1e-3, "alpha": 0.001, "beta": 0.001}


def look(name, parameters, tiny):
    """The objective, its tensors before the look, and what the look said."""
    objective = create(name, parameters).objective(tiny.data, bits=BITS, seed=0)
    before = {key: value.clone() for key, value in objective.state_dict().items()}
    refusal = None
    try:
        require_both_views(objective, tiny.data, batch=6, method=name)
    except TrainingError as error:
        refusal = str(error)
    return objective, before, refusal


@pytest.mark.parametrize(("name", "parameters"), [("nsh", NSH), ("crovca", CROVCA), ("sgh", SGH)])
def test_running_statistics_counters_and_gradients_are_as_before(name, parameters, tiny):
    objective, before, refusal = look(name, parameters, tiny)
    assert all(torch.equal(value, before[key]) for key, value in objective.state_dict().items())
    assert all(parameter.grad is None for parameter in objective.parameters())
    assert (refusal is not None) == (name == "sgh")


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_the_ablations_of_nsh_can_be_tuned(ablation, tiny):
    assert look("nsh", NSH | {"ablation": ablation}, tiny)[2] is None
