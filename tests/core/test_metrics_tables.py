import numpy as np
import pytest

from nsh.core.metrics import to_csv


def test_csv_has_a_header_and_six_digits():
    text = to_csv({"k": np.array([1, 50_000]), "precision": np.array([1 / 3, 0.0])})
    assert text == "k,precision\n1,0.333333\n50000,0\n"


def test_csv_of_no_rows_is_its_header():
    assert to_csv({"k": np.empty(0), "precision": np.empty(0)}) == "k,precision\n"


def test_columns_must_have_one_length():
    with pytest.raises(ValueError, match="shorter"):
        to_csv({"k": np.arange(2), "precision": np.arange(1)})


def test_a_row_of_a_large_gallery_is_written_whole():
    assert to_csv({"gallery": np.array([1_234_567]), "distance": np.array([3])}) == "gallery,distance\n1234567,3\n"
