"""NSH as it was before its readings became parameters, kept here line by line: at their defaults nothing may change.

Floating-point sums depend on their order, so that what is kept is the order of the operations too.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional

from nsh.methods.base import Objective
from nsh.methods.heads import StandardisedHead, to_bytes
from nsh.methods.nsh import Nsh, start_from_itq
from nsh.training.loop import CachedViewLoop

READINGS = {
    "similarity": "cosine",
    "quantiser": "norm",
    "hidden": 0,
    "symmetric": False,
    "ablation": "none",
}
PARAMETERS = {"epochs": 3, "batch": 12, "learning_rate": 1e-3, "tau_c": 0.1, "d_z": 16, "quantisation": 1.0}
DEFAULT = {"init": "itq", "m": 3, "tau_s": 0.1}
PAPER = {"init": "random", "m": 2, "tau_s": 0.1}
LITERAL = PAPER | {"tau_s": "d_b"}


def affinity(first, second):
    return first @ second.T / (2 * first.shape[1]) + 0.5


def straight_through(hidden):
    return torch.where(hidden > 0, 1.0, -1.0) + (hidden - hidden.detach())


def distance_to_code(hidden):
    return ((torch.where(hidden > 0, 1.0, -1.0).detach() - hidden).square().sum() + 1e-12).sqrt()


def distinct(scores):
    ranked = scores.sort(dim=1, descending=True).values
    level_of_rank = functional.pad((ranked[:, 1:] != ranked[:, :-1]).cumsum(dim=1), (1, 0))
    empty = ranked.new_zeros(len(scores), int(level_of_rank[:, -1].max()) + 1)
    ties = empty.scatter_add(1, level_of_rank, torch.ones_like(ranked)).clamp_min(1)
    mean = empty.scatter_add(1, level_of_rank, ranked) / ties
    value = empty.scatter(1, level_of_rank, ranked.detach())
    return value + (mean - mean.detach()), level_of_rank


def sorted_cosines(scores, first, second, *, tau_s):
    levels, level_of_rank = distinct(scores)
    share = functional.softmax((levels.unsqueeze(2) - scores.unsqueeze(1)).abs() / -tau_s, dim=2)
    with_anchor = (share @ (second @ first.T).unsqueeze(2)).squeeze(2)
    squared_length = ((share @ (first @ first.T)) * share).sum(dim=2)
    cosines = with_anchor * squared_length.clamp_min(1e-8**2).rsqrt()
    return cosines.gather(1, level_of_rank)


def sorted_nce(cosines, *, m, tau_c):
    logits = cosines / tau_c
    negatives = logits[:, m:].logsumexp(dim=1, keepdim=True)
    return functional.softplus(negatives - logits[:, :m]).mean()


def draw_uniform(layer, generator):
    bound = layer.in_features**-0.5
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)


class Before(Objective):
    def __init__(self, data, *, bits, seed, init, m, tau_s):
        super().__init__()
        self.head = StandardisedHead(data.dim, bits)
        self.head.fit_standardisation(torch.from_numpy(data.features))
        self.latent = nn.Linear(data.dim, PARAMETERS["d_z"])
        self.m, self.tau_s = m, float(bits) if tau_s == "d_b" else tau_s
        generator = torch.Generator().manual_seed(seed)
        draw_uniform(self.head.linear, generator)
        draw_uniform(self.latent, generator)
        if init == "itq":
            start_from_itq(self.head, data, seed=seed)

    def forward(self, first, second):
        inputs = self.head.standardise(torch.cat([first, second]))
        hidden_first, hidden_second = self.head.linear(inputs).tanh().chunk(2)
        latent_first, latent_second = functional.normalize(self.latent(inputs), dim=1).chunk(2)
        scores = affinity(straight_through(hidden_first), straight_through(hidden_second))
        cosines = sorted_cosines(scores, latent_first, latent_second, tau_s=self.tau_s)
        contrast = sorted_nce(cosines, m=self.m, tau_c=PARAMETERS["tau_c"])
        distance = (distance_to_code(hidden_first) + distance_to_code(hidden_second)) / (2 * len(hidden_first))
        loss = contrast + PARAMETERS["quantisation"] * distance
        return {"loss": loss, "sorted_nce": contrast, "quantisation": distance}


@pytest.mark.parametrize("changes", [DEFAULT, PAPER, LITERAL])
def test_at_their_defaults_the_readings_change_no_bit(changes, draw_clusters, tmp_path):
    data, rows, expected = draw_clusters(count=96, dim=20), [], []
    loop = CachedViewLoop(cache=tmp_path, threads=1)
    method = Nsh(**PARAMETERS | READINGS | changes)
    head = method.fit(data, bits=8, seed=4, report=rows.append, loop=loop)

    def run_before(objective, data, **kwargs):
        before = Before(data, bits=8, seed=4, **changes)
        loop(before, data, **kwargs | {"report": expected.append, "identity": {"method": "before"}})
        objective.head.load_state_dict(before.head.state_dict())

    before = method.fit(data, bits=8, seed=4, report=print, loop=run_before)
    assert to_bytes(head) == to_bytes(before)
    assert rows == expected
    assert len(rows) == 3
