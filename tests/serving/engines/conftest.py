from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden_encoder() -> Path:
    """An encoder that production's environment has too, where nothing can be exported."""
    return Path(__file__).parents[2] / "golden/encoder.onnx"
