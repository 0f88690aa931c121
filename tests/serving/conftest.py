"""Production is tested with the small encoder that needs no torch to be made."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "encoder.onnx"


@pytest.fixture(scope="session")
def encoder_path() -> Path:
    return GOLDEN
