import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.core.metrics import paired_difference
from nsh.errors import DataError
from nsh.studies.record import (
    BLOCKS,
    Line,
    average_blocks,
    identify,
    join,
    make_line,
    read_record,
    record_of,
    record_results,
    select,
    write_record,
)
from nsh.studies.trials import make_trial, read_results


def make(method="itq", bits=16, seed=0, mean=0.5, identity="a" * 12, blocks=(0.25, 0.75), commit="old"):
    metrics = {name: 0.25 for name in ("mAP_at_1000_reranked", "P_at_1000", "P_at_H2")}
    metrics |= {"mAP_at_1000": mean, "train_seconds": 1.5}
    return Line(method, "", bits, seed, metrics, [], identity, commit, np.array(blocks, np.float64))


def plain(line):
    return {**asdict(line), "average_precision": list(line.average_precision)}


def test_a_record_is_read_as_it_was_written(tmp_path):
    lines = [make(), make(seed=1, blocks=()), replace(make(commit="b" * 12), changed="m=2 init=random")]
    lines[0].failures.append("collapsed")
    write_record(tmp_path / "a.csv", lines)
    assert [plain(line) for line in read_record(tmp_path / "a.csv")] == [plain(line) for line in lines]


def test_a_trial_becomes_a_line(quick, setting, leave):
    leave([make_trial(quick, "itq", bits=16, seed=3, changed={"iterations": 4})])
    (result,) = read_results(setting)
    line = make_line(result, setting, quick, commit="b" * 12)
    assert (line.method, line.changed, line.bits, line.seed) == ("itq", "iterations=4", 16, 3)
    assert line.metrics["mAP_at_1000"] == pytest.approx(result.metrics["mAP_at_1000"], rel=1e-5)
    assert line.metrics["train_seconds"] == 61.7
    assert (line.failures, line.commit) == ([], "b" * 12)
    assert len(line.average_precision) == BLOCKS  # of 60 queries


def test_trials_are_found_by_all_that_was_asked(quick, setting, leave):
    """Method, parameters, bits and seed."""
    changed = {"iterations": 3}
    trials = [make_trial(quick, "itq", bits=bits, seed=seed) for bits in (8, 16) for seed in (0, 1)]
    trials += [make_trial(quick, "itq", bits=8, seed=0, changed=changed), make_trial(quick, "lsh", bits=8, seed=0)]
    lines = [make(identity=identify(trial, setting), bits=trial.bits, seed=trial.seed) for trial in trials]
    assert len({line.key for line in lines}) == len(trials)
    assert select(lines[::-1], trials, setting) == lines
    assert select(lines[1:3], trials, setting) == lines[1:3]


def test_trials_of_another_machine_stay_in_the_record(quick, setting, leave, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave([make_trial(quick, "itq", bits=16, seed=0), make_trial(quick, "itq", bits=8, seed=0)])
    first, record = record_results(setting, quick), record_of(setting).read_bytes()
    assert [(line.bits, line.changed) for line in first] == [(8, ""), (16, "")]
    shutil.rmtree(setting.trials)
    assert len(record_results(setting, quick)) == 2
    assert record_of(setting).read_bytes() == record
    leave([make_trial(quick, "itq", bits=16, seed=0, changed={"iterations": 3})])
    assert [(line.bits, line.changed) for line in record_results(setting, quick)] == [
        (8, ""),
        (16, ""),
        (16, "iterations=3"),
    ]


def test_what_is_measured_replaces_the_same_trial_and_joins_the_others():
    recorded = [make(), make(bits=32), make(method="lsh", identity="b" * 12)]
    again, more = make(mean=0.75, commit="new"), make(seed=2, commit="new")
    assert join(recorded, [again, more]) == [again, recorded[2], recorded[1], more]


def test_a_trial_that_says_the_same_leaves_the_line_as_it_is():
    recorded, again = make(), make(commit="new")
    again.metrics["train_seconds"] = 7.0
    assert join([recorded], [again]) == [recorded]
    former = make(blocks=())  # knows no queries
    assert join([former], [again]) == [again]


def test_without_a_file_the_record_is_empty(tmp_path):
    assert read_record(tmp_path / "a.csv") == []


@pytest.mark.parametrize(
    ("found", "written"), [(",16,", ",sixteen,"), ("0.2500 0.7500", "0.2500 many"), (",0.2500 0.7500", "")]
)
def test_a_damaged_record_is_refused_with_its_line_and_what_to_do(tmp_path, found, written):
    path = tmp_path / "a.csv"
    write_record(path, [make(method="lsh", bits=8, blocks=(0.5,)), make()])
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
