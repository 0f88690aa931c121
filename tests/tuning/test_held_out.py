from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nsh.core.codes import binarize, pack
from nsh.core.metrics import evaluate
from nsh.data.split import read_part
from nsh.errors import DataError
from nsh.methods import create
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.tuning.held_out import hold_out, open_held_out

LINEAR = {"bits": 8, "seed": 0, "report": lambda record: None, "loop": None}


def test_no_image_is_in_two_parts_and_none_is_lost() -> None:
    rows = hold_out([f"{number}" for number in range(100)], seed=0)
    assert sorted(np.concatenate(rows).tolist()) == list(range(100))
    assert [len(part) for part in rows] == [80, 10, 10]


def test_no_content_is_in_two_parts() -> None:
    digests = [f"{number % 30}" for number in range(90)]  # each content three times
    parts = [{digests[row] for row in part} for part in hold_out(digests, seed=0)]
    assert [len(part) for part in parts] == [24, 3, 3]
    assert len(set.union(*parts)) == 30


def test_the_seed_decides_what_is_held_out_and_many_images_hold_out_no_more_than_a_thousand() -> None:
    digests = [f"{number}" for number in range(10_000)]
    first, again, other = (hold_out(digests, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(first.choose, again.choose)
    assert not np.array_equal(first.choose, other.choose)
    assert len(first.choose) == len(first.check) == 500


def test_too_few_images_are_refused() -> None:
    with pytest.raises(DataError, match="found 4 different training images, a search needs 10 or more"):
        hold_out(["a", "b", "c", "d", "d"], seed=0)


def test_a_score_is_the_map_among_training_images(write_project: Callable[..., Path]) -> None:
    write_project()
    held_out, part = open_held_out(Project(), k=20, seed=0), read_part(Project().split, "train")
    rows = hold_out(part.sha256, seed=0)
    assert held_out.figure == "mAP_at_8"  # 20 of a gallery of 200 are 8 of 80
    head = create("itq", {"iterations": 3}).fit(held_out.data, **LINEAR)
    features = torch.from_numpy(np.array(Embeddings(Project().embed).read("train")))
    codes, labels = pack(binarize(head(features).detach().numpy())), part.labels
    for queries, held in ((held_out.choose, rows.choose), (held_out.check, rows.check)):
        found = evaluate(codes[held], codes[rows.learn], labels[held], labels[rows.learn], bits=8, k=8)
        assert held_out.score(head, queries) == found.metrics["mAP_at_8"]


def test_without_labels_an_estimate_judges(write_project: Callable[..., Path]) -> None:
    write_project(labelled=False)
    held_out = open_held_out(Project(), k=20, seed=0)
    assert held_out.figure == "estimated_mAP_at_8"
    good, bad = (create(name, values).fit(held_out.data, **LINEAR) for name, values in (("itq", {}), ("lsh", {})))
    for value in bad.state_dict().values():
        value.zero_()  # all codes are equal
    assert 0 == held_out.score(bad, held_out.choose) < held_out.score(good, held_out.choose) <= 1


def test_a_head_in_training_stays_so_and_learns_nothing(write_project: Callable[..., Path]) -> None:
    write_project()
    held_out = open_held_out(Project(), k=20, seed=0)
    head = create("nsh_plus", {"directions": 8, "hidden": 8}).head(12, 8).train()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    held_out.score(head, held_out.choose)
    assert head.training
    assert all(value.equal(before[name]) for name, value in head.state_dict().items())
