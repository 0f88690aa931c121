from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.core.metrics import paired_difference
from nsh.errors import DataError
from nsh.studies.record import BLOCKS, Line, average_blocks, identify, join, make_line, read_record, write_record
from nsh.studies.trials import make_trial, read_results


def make(row="itq", bits=16, seed=0, mean=0.5, identity="a" * 12, blocks=(0.25, 0.75), commit="old"):
    metrics = {name: 0.25 for name in ("mAP_at_1000_reranked", "P_at_1000", "P_at_H2")}
    metrics |= {"mAP_at_1000": mean, "train_seconds": 1.5}
    return Line(row, bits, seed, metrics, [], identity, commit, np.array(blocks, np.float64))


def plain(line):
    return {**asdict(line), "average_precision": list(line.average_precision)}


def test_a_record_is_read_as_it_was_written(tmp_path):
    lines = [make(), make(seed=1, blocks=()), make(row="nsh_plus, sorting: 0", commit="b" * 12)]
    lines[0].failures.append("collapsed")
    write_record(tmp_path / "a.csv", lines)
    assert [plain(line) for line in read_record(tmp_path / "a.csv")] == [plain(line) for line in lines]


def test_a_trial_becomes_a_line(quick, setting, leave):
    leave([make_trial(quick, "itq", bits=16, seed=3)])
    (result,) = read_results(setting)
    line = make_line("itq", result, setting, commit="b" * 12)
    assert line.key == ("itq", 16, 3)
    assert line.metrics["mAP_at_1000"] == pytest.approx(result.metrics["mAP_at_1000"], rel=1e-5)
    assert line.metrics["train_seconds"] == 61.7
    assert (line.failures, line.commit) == ([], "b" * 12)
    assert len(line.average_precision) == BLOCKS  # of 60 queries


def test_the_identity_is_of_method_parameters_images_and_network(setting):
    found = {
        identify("itq", {"iterations": 2}, setting=setting),
        identify("itq", {"iterations": 3}, setting=setting),
        identify("lsh", {"iterations": 2}, setting=setting),
    }
    assert len(found) == 3
    assert identify("itq", {"iterations": 2}, setting=setting) in found


def test_what_is_measured_replaces_the_same_trial_and_joins_the_others():
    recorded = [make(), make(seed=1), make(row="lsh")]
    again, more = make(mean=0.75, commit="new"), make(seed=2, commit="new")
    lines = {line.key: line for line in join(recorded, [again, more])}
    assert lines == {again.key: again, more.key: more, recorded[1].key: recorded[1], recorded[2].key: recorded[2]}


def test_a_trial_that_says_the_same_leaves_the_line_as_it_is():
    recorded, again = make(), make(commit="new")
    assert join([recorded], [again]) == [recorded]
    former = make(blocks=())  # knows no queries
    assert join([former], [again]) == [again]
    other = make(identity="b" * 12, commit="new")
    assert join([recorded], [other]) == [other]


def test_without_a_file_the_record_is_empty_and_lines_without_identity_are_left_out(tmp_path):
    assert read_record(tmp_path / "a.csv") == []
    (tmp_path / "a.csv").write_text("method,bits,seed,mAP_at_1000\nitq,16,0,0.5\n")
    assert read_record(tmp_path / "a.csv") == []


@pytest.mark.parametrize(
    ("found", "written"), [(",16,", ",sixteen,"), ("0.2500 0.7500", "0.2500 many"), (",0.2500 0.7500", "")]
)
def test_a_damaged_record_is_refused_with_its_line_and_what_to_do(tmp_path, found, written):
    path = tmp_path / "a.csv"
    write_record(path, [make(row="lsh", bits=8, blocks=(0.5,)), make()])
    text = path.read_text()
    assert found in text
    path.write_text(text.replace(found, written))
    with pytest.raises(DataError, match=r"line 3 of .*a\.csv .*git checkout"):
        read_record(path)


@given(st.integers(2, 400))
def test_blocks_are_means_of_neighbours(count):
    values = np.arange(float(count))
    blocks = average_blocks(values)
    assert len(blocks) == min(count, BLOCKS)
    assert np.all(np.diff(blocks) > 0)
    if count % BLOCKS == 0:
        assert blocks.mean() == pytest.approx(values.mean())


def test_blocks_of_queries_tell_the_error_that_the_queries_tell():
    generator = np.random.default_rng(0)
    ratios = []
    for _ in range(200):
        hard = generator.uniform(0, 1, 10_000)
        sides = [np.clip(hard + generator.normal(0, 0.2, 10_000), 0, 1) for _ in range(2)]
        whole, blocks = paired_difference(*sides), paired_difference(*map(average_blocks, sides))
        assert blocks.mean == pytest.approx(whole.mean)
        ratios.append(blocks.standard_error / whole.standard_error)
    assert np.mean(ratios) == pytest.approx(1, abs=0.03)
    assert np.std(ratios) < 0.15  # 1 / sqrt(2 * 49) = .10
