"""Nothing draws from a generator that nobody seeded: what differs from run to run cannot be repeated."""

import ast
import random
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
FILES = [path for room in ("src", "pipeline", "benchmarks", "tests") for path in sorted((ROOT / room).rglob("*.py"))]
MAKERS = {"default_rng", "RandomState", "SeedSequence", "Random", "SystemRandom", "PCG64", "Philox"}
"""What makes a generator, and takes the machine's entropy where no seed is given."""


def find_unseeded(source: str) -> list[str]:
    """The calls in a program that make a generator without a seed."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [ast.unparse(call) for call in calls if _name(call.func) in MAKERS and _is_unseeded(call)]


def _name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def _is_unseeded(call: ast.Call) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(value, ast.Constant) and value.value is None for value in given)


def test_every_generator_has_a_seed() -> None:
    found = {str(path.relative_to(ROOT)): find_unseeded(path.read_text(encoding="utf-8")) for path in FILES}
    assert {path: calls for path, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("np.random.default_rng()", 1),
        ("default_rng(seed=None)", 1),
        ("random.Random()", 1),
        ("default_rng(seed)", 0),
        ("default_rng([seed, row])", 0),
        ("random.Random(0)", 0),
    ],
)
def test_an_unseeded_one_is_found(source: str, found: int) -> None:
    assert len(find_unseeded(source)) == found


def test_global_generators_begin_anew_in_every_test() -> None:
    """Whatever ran before."""
    first = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    assert first == (random.random(), np.random.rand(), torch.rand(1).item())
