"""Every check has its right value, on data whose right value is known."""

import io

import numpy as np
import pytest
from PIL import Image

from nsh.audit.audit import refuse
from nsh.audit.finding import Finding, Limit, Verdict
from nsh.audit.labels import check_labels, count_relevant
from nsh.audit.near_duplicates import find_near_duplicates
from nsh.audit.sizes import Sizes
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings

ALTERNATE = {"query": [(row % 2,) for row in range(4)], "gallery": [(row % 2,) for row in range(60)]}
NO_LIMITS = dict.fromkeys(("relevant_share", "unmatched", "imbalance"), Limit())


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (None, Verdict.UNCHECKED),
        (0.1, Verdict.FINE),
        (0.2, Verdict.WARNING),
        (0.5, Verdict.WARNING),
        (0.6, Verdict.STOP),
    ],
)
def test_a_value_is_within_its_own_limit(value, verdict):
    assert finding(value, Limit(warn=0.1, stop=0.5)).verdict is verdict


def finding(value, limit):
    return Finding(key="audit.x", value=value, found="found 3 of 5", remedy="mend them", limit=limit)


def test_without_limits_everything_is_fine():
    assert finding(1e9, Limit()).verdict is Verdict.FINE


def test_a_finding_says_found_allowed_and_what_to_do():
    said = "found 3 of 5, allowed is 0.5 (audit.x): mend them, or raise the limit"
    assert str(finding(0.6, Limit(warn=0.1, stop=0.5))) == said
    assert str(finding(0.1, Limit(warn=0.1))) == "found 3 of 5"


def test_queries_with_a_near_duplicate_are_found_and_no_others(build):
    audit, _ = build(copies={2: 17, 0: 45})
    found = {(pair.query, pair.gallery) for pair in audit.near_duplicates}
    assert found == {(2, 17), (0, 45)}
    assert [pair.distance for pair in audit.near_duplicates] == sorted(pair.distance for pair in audit.near_duplicates)
    assert audit.findings["near_duplicates"].value == 0.5
    written = audit.to_json()["near_duplicates"]
    assert {(pair["query"], pair["gallery"]) for pair in written} == {("q2.png", "g17.png"), ("q0.png", "g45.png")}


@pytest.mark.parametrize("quality", [90, 75, 50])
def test_a_photograph_saved_again_is_found_and_another_is_not(tmp_path, quality):
    """Tiles of one photograph are the gallery; those of another, and a copy of one tile as JPEG, are the queries."""
    from sklearn.datasets import load_sample_images  # a third of the time that pytest takes to start

    gallery, query = ([cut(picture, row) for row in range(60)] for picture in load_sample_images().images)
    file = io.BytesIO()
    gallery[17].save(file, "JPEG", quality=quality)
    query[5] = Image.open(file)
    embeddings = Embeddings(tmp_path)
    arrays = {"query": embed(query), "gallery": embed(gallery), "train": embed(gallery)}
    for part, array in arrays.items():
        np.save(embeddings.path(part), array)
    np.save(embeddings.views, arrays["train"][:, None].astype(np.float16))
    (found,) = find_near_duplicates(embeddings)
    assert (found.query, found.gallery) == (5, 17)


def cut(picture, row):
    """One of the 60 tiles of 64 x 64 pixels of a photograph."""
    top, left = 64 * (row // 10), 64 * (row % 10)
    return Image.fromarray(picture[top : top + 64, left : left + 64])


def embed(images):
    """Means of 8 x 8 pixels, float32 [n, 192]: they stand for a network that hardly sees what JPEG changes."""
    return np.stack([np.asarray(image.resize((8, 8), Image.Resampling.BOX), np.float32).ravel() for image in images])


def test_a_limit_stops_with_one_sentence_and_a_warning_does_not(build, tmp_path):
    audit, _ = build(copies={2: 17, 0: 45}, near_duplicates=Limit(warn=0.1, stop=0.5))
    assert audit.findings["near_duplicates"].verdict is Verdict.WARNING
    refuse(audit, report=tmp_path)


def test_above_the_limit_it_stops(build, tmp_path):
    audit, _ = build(copies={2: 17, 0: 45}, near_duplicates=Limit(stop=0.4))
    with pytest.raises(DataError, match=r"2 of 4 queries have .* a share of 0\.5, allowed is 0\.4 \(audit\.near_dupl"):
        refuse(audit, report=tmp_path)


def test_even_classes(build):
    findings = build(labels=ALTERNATE)[0].findings
    values = [findings[name].value for name in ("relevant_share", "unmatched", "imbalance")]
    assert values == [0.5, 0, 1]


def test_a_class_with_one_image_has_no_right_answer(build):
    audit, _ = build(labels={"query": [(0,), (0,), (0,), (1,)], "gallery": [(0,)] * 60})
    assert audit.findings["unmatched"].value == 0.25
    assert audit.findings["imbalance"].value == 63
    assert audit.findings["relevant_share"].value == 0.75


def test_one_class_is_what_a_random_order_gets_right(build, tmp_path):
    audit, _ = build(labels={"query": [(1,)] * 4, "gallery": [(1,)] * 60}, relevant_share=Limit(warn=0.6, stop=0.99))
    assert audit.findings["relevant_share"].value == 1
    assert "1 of 2 classes have none" in audit.findings["imbalance"].found
    with pytest.raises(DataError, match=r"which is the mAP of any random order, allowed is 0\.99"):
        refuse(audit, report=tmp_path)


def test_several_labels_of_an_image_as_coco_has_them():
    """People are in most images; each image counts for every class that it shows."""
    random = np.random.default_rng(0)
    query, gallery = (random.random((count, 80)) < 0.03 for count in (20, 300))
    query[:, 0] |= random.random(20) < 0.6
    gallery[:, 0] |= random.random(300) < 0.6
    expected = [sum(bool((one & other).any()) for other in gallery) for one in query]
    assert count_relevant(query, gallery).tolist() == expected
    findings = check_labels(query, gallery, classes=[str(row) for row in range(80)], limits=NO_LIMITS)
    assert findings["relevant_share"].value == pytest.approx(np.mean(expected) / 300)
    counts = query.sum(axis=0) + gallery.sum(axis=0)
    assert findings["imbalance"].value == counts.max() / counts[counts > 0].min()


def test_without_labels_the_checks_of_labels_are_not_made(build):
    findings = build()[0].findings
    unchecked = [name for name, one in findings.items() if one.verdict is Verdict.UNCHECKED]
    assert unchecked == ["relevant_share", "unmatched", "imbalance"]
    assert findings["imbalance"].found == "nothing is labelled"


@pytest.mark.parametrize(
    ("sides", "odd"),
    [
        ([(500, 700), (500, 700), (500, 700), (47, 60)], [3]),  # less than half of the input's 96 pixels
        ([(500, 700), (500, 700), (500, 700), (48, 60)], []),
        ([(32, 32), (32, 32), (32, 32), (15, 16)], [3]),  # all are enlarged, this one more than twice as much
        ([(32, 32)] * 4, []),
        ([(200, 601), (200, 600), (200, 200), (200, 200)], [0]),  # more than 3 times as long
    ],
)
def test_odd_sizes_are_small_among_others_or_long(sides, odd):
    sizes = Sizes(ids=["a", "b", "c", "d"], sides=np.array(sides), image_size=96)
    assert sizes.odd.tolist() == odd
    assert sizes.check(Limit()).value == len(odd) / 4


def test_sizes_are_those_of_the_files(build):
    audit, _ = build(sizes=[(10, 40), (40, 10), (90, 40)])
    assert audit.sizes.sides[:4].tolist() == [[10, 40], [10, 40], [40, 90], [40, 40]]
    assert audit.findings["odd_sizes"].value == 2 / 64


def test_unreadable_images_are_a_share_of_all(build):
    audit, images = build(unreadable=[("broken.jpg", "truncated")])
    assert audit.findings["unreadable"].value == 1 / len(images.ids)
    assert audit.findings["unreadable"].key == "split.max_bad_share"
