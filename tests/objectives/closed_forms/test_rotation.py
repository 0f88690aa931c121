"""The mathematics of ITQ: what it reports, and what its projection spans."""

import numpy as np
import pytest
import torch

from nsh.objectives.closed_forms.rotation import (
    learn_projection,
    minimise_quantisation,
    principal_directions,
    random_rotation,
)


def test_rotation_is_orthogonal_and_the_reported_error_is_the_error():
    projected = torch.randn(50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rows = []
    rotation = minimise_quantisation(projected, random_rotation(5, seed=1), iterations=1, report=rows.append)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(5, dtype=torch.float64))
    code = np.where((projected @ random_rotation(5, seed=1)).numpy() > 0, 1, -1)
    assert rows[0]["loss"] == pytest.approx(np.mean((code - (projected @ rotation).numpy()) ** 2))


def test_projection_has_orthonormal_columns_that_span_the_principal_directions():
    centred = torch.randn(80, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 10)
    centred -= centred.mean(0)
    projection = learn_projection(centred, bits=4, iterations=5, seed=0, report=lambda row: None)
    torch.testing.assert_close(projection.T @ projection, torch.eye(4, dtype=torch.float64))
    directions = principal_directions(centred, count=4)
    kept = (centred @ directions).square().sum()
    torch.testing.assert_close((centred @ projection).square().sum(), kept)
    assert kept >= centred[:, -4:].square().sum()
