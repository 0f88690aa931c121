"""The draw against plain statements of what a split is, over many data sets and sizes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from nsh.data.draw import Sizes, draw
from nsh.data.split import Split
from nsh.data.take import take_per_class
from nsh.errors import ConfigError, DataError, UnreadableImage

ALL = Sizes(train=None, gallery=None, query=None)


class Images:
    """An image set by its contents: equal letters are equal images, a question mark is unreadable."""

    def __init__(self, contents: str, *, test: int = 0, labelled: bool = True) -> None:
        self.name = "letters"
        self.ids = [f"{row:03d}" for row in range(len(contents))]
        self.parts = ["train" if test else ""] * (len(contents) - test) + ["test"] * test
        self.classes = ("odd", "even") if labelled else None
        self.labels = [(row % 2,) for row in range(len(contents))] if labelled else None
        self.contents = dict(zip(self.ids, contents, strict=True))

    def content(self, image_id: str) -> bytes:
        return self.contents[image_id].encode()

    def image(self, image_id: str, *, size: int) -> Image.Image:
        raise NotImplementedError

    def inspect(self, image_id: str) -> str:
        if self.contents[image_id] == "?":
            raise UnreadableImage("broken")
        return self.contents[image_id] * 64


def different(count: int) -> str:
    return "".join(chr(0x4E00 + row) for row in range(count))


def ids(split: Split, part: str) -> list[str]:
    return split.parts[part].ids


@settings(max_examples=150, deadline=None)
@given(
    contents=st.text("abcdefghijklmnop?", min_size=3, max_size=40),
    test=st.integers(0, 10),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_a_split_is_what_it_says(contents: str, test: int, seed: int, data: st.DataObject) -> None:
    images = Images(contents, test=min(test, len(contents) - 1))
    sizes = Sizes(
        query=data.draw(st.integers(1, 10)),
        gallery=data.draw(st.none() | st.integers(1, 20)),
        train=data.draw(st.none() | st.integers(1, 20)),
    )
    try:
        split = draw(images, sizes, seed=seed, max_bad_share=1)
    except (ConfigError, DataError):
        assume(False)
    query, gallery, train = (ids(split, part) for part in ("query", "gallery", "train"))
    assert len(query) == sizes.query
    assert sizes.gallery is None or len(gallery) == sizes.gallery
    assert len(train) == (len(gallery) if sizes.train is None else sizes.train)
    assert set(train) <= set(gallery)
    assert len(set(gallery)) == len(gallery)
    assert not {images.contents[name] for name in query} & {images.contents[name] for name in gallery}
    assert "?" not in "".join(images.contents[name] for name in query + gallery)
    assert split.unreadable == [(name, "broken") for name in images.ids if images.contents[name] == "?"]
    if test:
        assert {images.parts[int(name)] for name in query} == {"test"}
        assert {images.parts[int(name)] for name in gallery} == {"train"}
    if sizes.gallery is None:  # nothing else is left out
        twins = {images.contents[name] for name in query}
        pool = [name for name in images.ids if images.parts[int(name)] != "test" and name not in query]
        left = [name for name in pool if images.contents[name] not in twins | {"?"}]
        assert sorted(gallery) == left
        readable = [name for name in pool if images.contents[name] != "?"]
        assert split.duplicates_dropped == len(readable) - len(left)
    for part in split.parts.values():
        assert part.labels == [(int(name) % 2,) for name in part.ids]
        assert part.sha256 == [images.contents[name] * 64 for name in part.ids]


def test_duplicates_of_queries_leave_the_gallery_and_others_stay() -> None:
    split = draw(Images("aabbcd" + "ax", test=2), Sizes(query=None, gallery=None, train=None), seed=0)
    assert sorted(ids(split, "gallery")) == ["002", "003", "004", "005"]  # the twins b, b stay; a, a are gone
    assert split.duplicates_dropped == 2


def test_the_same_seed_gives_the_same_split_whatever_the_threads() -> None:
    images = Images(different(300))
    sizes = Sizes(query=20, gallery=200, train=50)
    first, second, other = (
        draw(images, sizes, seed=seed, threads=threads) for seed, threads in ((1, 1), (1, 4), (2, 1))
    )
    assert first == second
    assert first.parts != other.parts


def test_parts_nest_and_do_not_disturb_each_other() -> None:
    images = Images(different(300), test=100)
    small = draw(images, Sizes(query=10, gallery=50, train=20), seed=0)
    large = draw(images, Sizes(query=10, gallery=120, train=20), seed=0)
    assert ids(large, "query") == ids(small, "query")
    assert ids(large, "gallery")[:50] == ids(small, "gallery")
    more = draw(images, Sizes(query=10, gallery=50, train=40), seed=0)
    assert ids(more, "gallery") == ids(small, "gallery")
    assert ids(more, "train")[:20] == ids(small, "train")


def test_the_gallery_is_shuffled_and_every_image_is_as_likely() -> None:
    images = Images(different(20))
    counts: Counter[str] = Counter()
    for seed in range(400):
        split = draw(images, Sizes(query=5, gallery=5, train=5), seed=seed)
        assert ids(split, "gallery") != sorted(ids(split, "gallery")) or seed > 0
        counts.update(ids(split, "query"))
    expected = 400 * 5 / 20
    assert sum((counts[name] - expected) ** 2 / expected for name in images.ids) < 43.8  # chi-squared, 19 d.o.f., 0.001


def test_without_labels_parts_have_none() -> None:
    split = draw(Images(different(9), labelled=False), Sizes(query=2, gallery=None, train=None), seed=0)
    assert split.classes is None
    assert all(part.labels is None for part in split.parts.values())


@pytest.mark.parametrize(
    ("images", "sizes", "message"),
    [
        (Images(different(9)), ALL, "split.query is null .* no test part: give a number"),
        (
            Images(different(9)),
            Sizes(query=10, gallery=None, train=None),
            "query asks for 10 images, the data set has 9",
        ),
        (
            Images(different(9), test=3),
            Sizes(query=4, gallery=None, train=None),
            "query asks for 4 images, the test part has 3",
        ),
        (Images(different(9)), Sizes(query=9, gallery=None, train=None), "gallery asks for all images, 0 are left"),
        (Images(different(9)), Sizes(query=3, gallery=7, train=None), "gallery asks for 7 images, 6 are left"),
        (
            Images(different(9)),
            Sizes(query=3, gallery=4, train=5),
            "train asks for 5 images, but they are drawn out of the gallery, which has 4",
        ),
        (Images("abca", test=1), Sizes(query=1, gallery=3, train=None), r"2 are left beside the queries \(1 more have"),
        (Images("abc?", test=1), Sizes(query=1, gallery=3, train=None), "query asks for 1 images, the test part has 0"),
    ],
)
def test_sizes_that_do_not_fit_are_one_clear_sentence(images: Images, sizes: Sizes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw(images, sizes, seed=0, max_bad_share=0.5)


def test_sizes_are_checked_before_any_image_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(different(9))
    monkeypatch.setattr(images, "inspect", None)
    with pytest.raises(ConfigError):
        draw(images, Sizes(query=3, gallery=7, train=None), seed=0)


@pytest.mark.parametrize(("share", "passes"), [(0.02, True), (0.019, False), (0, False), (1, True)])
def test_the_share_of_unreadable_images_is_limited(share: float, passes: bool) -> None:
    images = Images(different(49) + "?")
    sizes = Sizes(query=5, gallery=None, train=None)
    if passes:
        assert draw(images, sizes, seed=0, max_bad_share=share).unreadable == [("049", "broken")]
    else:
        with pytest.raises(DataError, match=r"1 of 50 images cannot be read.*max_bad_share.*'049': broken"):
            draw(images, sizes, seed=0, max_bad_share=share)


def test_all_images_broken_is_an_error_whatever_the_share() -> None:
    with pytest.raises(DataError, match="3 of 3 images cannot be read"):
        draw(Images("???"), Sizes(query=1, gallery=None, train=None), seed=0, max_bad_share=1)


def test_a_failure_other_than_unreadable_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(different(1000))

    def changed(image_id: str) -> str:
        raise DataError("changed")

    monkeypatch.setattr(images, "inspect", changed)
    with pytest.raises(DataError, match="changed"):
        draw(images, Sizes(query=1, gallery=None, train=None), seed=0)


def test_progress_counts_images() -> None:
    seen = []

    def progress(iterable, *, desc="", total=None):
        results = list(iterable)
        seen.append((desc, total, len(results)))
        return results

    draw(Images(different(130)), Sizes(query=1, gallery=None, train=None), seed=0, progress=progress)
    assert seen == [("reading images", 130, 130)]


def test_labels_are_read_by_position() -> None:
    split = draw(Images(different(9)), Sizes(query=3, gallery=None, train=None), seed=0)
    assert np.array_equal(split.parts["query"].labels, [(int(name) % 2,) for name in ids(split, "query")])


def test_images_that_are_only_searched_never_learn() -> None:
    images = Images(different(30), test=10)
    images.parts[:15] = ["gallery"] * 15
    split = draw(images, ALL, seed=0)
    assert sorted(ids(split, "gallery")) == images.ids[:20]
    assert sorted(ids(split, "train")) == images.ids[15:20]
    with pytest.raises(ConfigError, match="train asks for 6 images, and the lists name 5 of this gallery for training"):
        draw(images, Sizes(train=6, gallery=None, query=None), seed=0)


def test_query_and_train_are_even_over_classes_and_the_gallery_is_the_rest() -> None:
    images = Images(different(40))
    split = draw(images, Sizes(query=6, gallery=None, train=10), seed=0, take=take_per_class)
    for part, share in (("query", 3), ("train", 5)):
        assert Counter(split.parts[part].labels) == {(0,): share, (1,): share}
    assert sorted(ids(split, "query") + ids(split, "gallery")) == images.ids


def test_a_size_that_no_class_can_fill_is_said_before_any_image_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    images = Images(different(40))
    images.labels = [(0,)] * 25 + [(1,)] * 15
    monkeypatch.setattr(images, "inspect", None)
    with pytest.raises(ConfigError, match="asks for 6 images of each class, there are only: even 5 "):
        draw(images, Sizes(query=20, gallery=None, train=12), seed=0, take=take_per_class)
