"""What evaluate writes of a pair is what tracking and reports read."""

import numpy as np
import pytest

from nsh.core.metrics import CURVES, evaluate
from nsh.errors import DataError
from nsh.project.paths import Pair, Project
from nsh.project.results import list_tables, read_measured, read_nearest, write_measured
from nsh.system.files import write_json

NEAREST = {"query": np.array([0, 0]), "gallery": np.array([4, 1]), "distance": np.array([0, 3])}


@pytest.fixture
def written(tmp_path):
    """The files of a pair that was measured, and what was measured."""
    files = Project(tmp_path).of(Pair("nsh", 8))
    generator = np.random.default_rng(0)
    codes = [generator.integers(0, 256, (count, 1), dtype=np.uint8) for count in (5, 20)]
    labels = [np.eye(3, dtype=bool)[generator.integers(0, 3, count)] for count in (5, 20)]
    evaluation = evaluate(*codes, *labels, bits=8, k=10)
    write_json(files.history, [{"epoch": 1, "loss": 0.5}])
    write_measured(files, evaluation, NEAREST, protocol={"k": 10})
    return files, evaluation


def test_what_is_written_is_read_again(written, capsys):
    files, evaluation = written
    found = read_measured(files)
    assert (found.method, found.bits, found.key) == ("nsh", 8, "nsh-8")
    assert found.metrics == pytest.approx(evaluation.metrics, abs=1e-12)
    assert found.protocol == {"k": 10}
    assert found.history == [{"epoch": 1, "loss": 0.5}]
    assert found.average_precision == pytest.approx(evaluation.average_precision, rel=1e-5)
    for name, columns in CURVES.items():
        assert tuple(found.curves[name]) == columns
        assert found.curves[name][columns[0]] == pytest.approx(evaluation.curves[name][columns[0]], rel=1e-5)
    nearest = read_nearest(files)
    assert {name: column.tolist() for name, column in nearest.items()} == {
        name: column.tolist() for name, column in NEAREST.items()
    }


def test_every_table_that_mlflow_gets_is_there(written):
    files, _ = written
    assert [path.name for path in list_tables(files)] == [f"{name}.csv" for name in (*CURVES, "average_precision")]
    assert all(path.is_file() for path in list_tables(files))


@pytest.mark.parametrize("name", ["nsh-8.json", "curves/nsh-8/history.json", "curves/nsh-8/pr_lookup.csv"])
def test_what_is_missing_is_named_with_the_command_that_makes_it(written, name):
    files, _ = written
    (files.metrics.parent / name).unlink()
    with pytest.raises(DataError, match=rf"{name} is not here: run `dvc repro evaluate@nsh-8`"):
        read_measured(files)
