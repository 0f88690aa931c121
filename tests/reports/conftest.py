"""Measured pairs with small, smooth, real-looking curves."""

from collections.abc import Callable

import numpy as np
import pytest

from nsh.project.paths import Pair
from nsh.project.results import Measured
from nsh.reports.heading import Heading


@pytest.fixture
def heading() -> Heading:
    return Heading(
        data_set="cifar10",
        split={
            "data_set": "cifar10",
            "classes": ["cat", "dog"],
            "seed": 0,
            "counts": {"train": 500, "query": 10_000, "gallery": 50_000},
            "sha256": "5" * 64,
        },
        backbone={"backbone": "mobilenet_v2", "image_size": 96, "weights": "none"},
        k=1000,
        ceiling={"mAP_at_1000": 0.75, "mAP_min_at_1000": 0.6, "P_at_1000": 0.625, "recall_at_1000": 0.25},
        mode="frozen",
    )


@pytest.fixture
def measure() -> Callable[..., Measured]:
    """A function that makes one pair; its mAP is `value`."""

    def make(method: str, bits: int, value: float, *, labelled: bool = True) -> Measured:
        count = 400 if labelled else 0
        falling = value * np.linspace(1, 0.5, count)
        rising = np.linspace(0.01, 1, count)
        figures = {
            "mAP_at_1000": value,
            "mAP_min_at_1000": value / 2,
            "mAP_tie_aware_at_1000": value - 0.01,
            "P_at_1000": value - 0.1,
            "recall_at_1000": 0.125,
            "P_at_H2": 0.3,
            "mAP_at_1000_reranked": value + 0.02,
        }
        always = {
            "estimated_mAP_at_1000": value + 0.25,
            "empty_ball_share": 0.5,
            "bit_balance": 0.9,
            "constant_bits_share": 0.0,
            "unique_codes": 12_345.0,
            "code_entropy": 0.875,
        }
        return Measured(
            pair=Pair(method, bits),
            metrics=(figures if labelled else {}) | always,
            protocol={"k": 1000},
            curves={
                "precision_at_k": {"k": np.arange(1.0, count + 1), "precision": falling, "recall": rising},
                "pr_ranking": {"rank": np.arange(1.0, count + 1), "recall": rising, "precision": falling},
                "pr_lookup": {"radius": np.arange(float(min(count, bits))), "recall": rising[:bits]}
                | {"precision": falling[:bits], "empty_share": rising[:bits]},
            },
            average_precision=value + 0.1 * np.sin(np.arange(count) * (1 if method == "nsh" else 1.5)),
            history=[{"epoch": epoch, "loss": 3.0 / epoch} for epoch in range(1, 5)],
        )

    return make


@pytest.fixture
def measured(measure) -> list[Measured]:
    return [measure("nsh", 16, 0.625), measure("nsh", 32, 0.5), measure("itq", 16, 0.375), measure("itq", 32, 0.5625)]
