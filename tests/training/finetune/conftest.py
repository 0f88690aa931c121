"""A network of two layers, two dozen small images, and the loop over both."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.training.finetune.tiny import Tiny, make_loop, make_tiny


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    return make_tiny()


@pytest.fixture
def loop(tmp_path) -> Callable[..., Any]:
    """A fresh loop over a fresh network; keywords are settings of the recipe or the loop."""

    def make(**changes: Any) -> Any:
        return make_loop(tmp_path / "cache", **changes)

    return make
