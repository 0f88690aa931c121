from collections import Counter

from nsh.data import coco, nuswide
from nsh.methods import METHODS
from nsh.reports import paper
from nsh.reports.paper import printed, read_paper


def test_the_tables_are_whole():
    rows = read_paper()
    assert len(rows) == 237
    assert Counter(row.table for row in rows) == {"T1": 162, "T2": 54, "T3": 21}
    assert sum(row.value is None for row in rows) == 24
    assert all(row.value is None or 0 < row.value < 1 for row in rows)


def test_nsh_on_cifar10_is_what_the_paper_prints():
    assert printed("cifar10", "mAP_at_1000", table="T1")["NSH"] == {16: 0.706, 32: 0.733, 64: 0.756}
    assert printed("cifar10", "P_at_1000", table="T2")["NSH"] == {16: 0.691, 32: 0.716, 64: 0.744}
    assert printed("cifar10", "mAP_at_1000", table="T1")["ITQ"] == {16: 0.305, 32: 0.325, 64: 0.349}


def test_nsh_on_sets_of_many_labels_is_what_the_paper_prints():
    assert printed("nuswide", "mAP_at_5000", table="T1")["NSH"] == {16: 0.758, 32: 0.811, 64: 0.824}
    assert printed("coco", "mAP_at_5000", table="T1")["NSH"] == {16: 0.746, 32: 0.774, 64: 0.783}
    assert paper.SIZES.keys() == paper.DATA_SETS.keys()
    published = {name: data_set.published for name, data_set in (("nuswide", nuswide.SET), ("coco", coco.SET))}
    assert {name: sum(paper.SIZES[name]) for name in published} == published


def test_every_printed_map_is_above_precision():
    """Only the denominator "hits in the top k" allows it: the paper's protocol, and a guard against mixed columns."""
    mean, precision = printed("cifar10", "mAP_at_1000", table="T1"), printed("cifar10", "P_at_1000", table="T2")
    pairs = [(mean[method][bits], value) for method, values in precision.items() for bits, value in values.items()]
    assert len(pairs) == 27
    assert all(ours > value for ours, value in pairs)


def test_every_printed_method_is_run_here():
    assert set(paper.METHODS.values()) == set(printed("cifar10", "mAP_at_1000", table="T1"))


def test_another_data_set_or_k_has_no_printed_number():
    assert printed("fashion-mnist", "mAP_at_1000", table="T1") == {}
    assert printed("cifar10", "mAP_at_500", table="T1") == {}


def test_every_method_of_ours_that_the_paper_prints_is_matched_with_it():
    theirs = {row.method.lower(): row.method for row in read_paper()}
    assert {method: theirs[method] for method in METHODS if method in theirs} == paper.METHODS
