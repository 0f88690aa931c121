"""The names of images on disk, and how many they may be."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.manifest.conftest import plan_of

from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, digest_ids, read_codes
from nsh.errors import CodesError


def test_an_id_twice_is_refused(tmp_path):
    writer = CodesWriter(tmp_path, plan_of(ids=["a", "a"]))
    writer.write(0, [Entry(id="a"), Entry(id="a")], np.zeros((2, 2), np.uint8))
    writer.finish()
    with pytest.raises(CodesError, match="names an image twice"):
        read_codes(tmp_path)


def test_no_image_at_all(tmp_path):
    CodesWriter(tmp_path, plan_of(ids=[])).finish()
    found = read_codes(tmp_path)
    assert (found.ids, found.codes.shape, found.errors) == ([], (0, 2), [])


def test_every_image_broken(tmp_path):
    writer = CodesWriter(tmp_path, plan_of(ids=["a"]))
    writer.write(0, [Entry(id="a", status="error", error="not an image")], np.zeros((0, 2), np.uint8))
    writer.finish()
    assert read_codes(tmp_path).header["errors"] == 1


NAMES = st.lists(st.text(st.characters(), max_size=8), unique=True, max_size=6)  # lone surrogates and newlines, too


@given(ids=NAMES)
def test_any_name_comes_back_as_it_was(tmp_path_factory, ids):
    folder = tmp_path_factory.mktemp("codes")
    writer = CodesWriter(folder, plan_of(ids=ids))
    for shard, rows in writer.pending():
        writer.write(shard, [Entry(id=ids[row], path=ids[row]) for row in rows], np.zeros((len(rows), 2), np.uint8))
    writer.finish()
    assert read_codes(folder).ids == ids


@given(ids=NAMES, other=NAMES)
def test_the_digest_tells_lists_apart(ids, other):
    assert (digest_ids(ids) == digest_ids(other)) == (ids == other)


def test_the_plan_counts_shards():
    assert [list(plan_of().rows(shard)) for shard in range(plan_of().shards)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert dataclasses.replace(plan_of(), images=6).shards == 2
    assert plan_of(ids=[]).shards == 0
