"""Several runs that each encode a share of the images."""

import shutil

import numpy as np
import pytest
from tests.serving.bulk.conftest import IMAGES, encode

from nsh.core.manifest import read_codes
from nsh.errors import ConfigError
from nsh.serving.bulk import Share


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_shares_in_any_order_make_the_folder_between_them(encoder, photos, tmp_path, order):
    (photos / "a/bad.jpg").write_bytes(b"bad")
    done = [encode(encoder, photos, tmp_path / "shared", share=Share(number, 3)) for number in order]
    assert [summary.complete for summary in done] == [False, False, True]
    assert sum(summary.images for summary in done) == IMAGES + 1
    assert sum(len(summary.errors) for summary in done) == 1
    assert all(summary.images >= 9 for summary in done)
    shared = read_codes(tmp_path / "shared")
    encode(encoder, photos, tmp_path / "alone")
    alone = read_codes(tmp_path / "alone")
    assert shared.ids == alone.ids
    assert np.array_equal(shared.codes, alone.codes)


def test_a_run_without_a_share_does_what_shares_left(encoder, photos, tmp_path):
    encode(encoder, photos, tmp_path / "codes", share=Share(2, 4))
    summary = encode(encoder, photos, tmp_path / "codes")
    assert (summary.complete, summary.encoded) == (True, IMAGES)
    assert 0 < summary.kept < IMAGES


def test_folders_of_shares_made_apart_can_be_put_together(encoder, photos, tmp_path):
    for number in (1, 2):
        encode(encoder, photos, tmp_path / str(number), share=Share(number, 2))
    shutil.copytree(tmp_path / "2", tmp_path / "1", dirs_exist_ok=True)
    summary = encode(encoder, photos, tmp_path / "1")
    assert (summary.kept, summary.complete) == (IMAGES, True)
    assert len(read_codes(tmp_path / "1").ids) == IMAGES


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "a/b", "-1/2", "1/0", "1/2/3", "1.0/2"])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="of N shards the first is 1/N"):
        Share.parse(text)


def test_shares_are_a_partition():
    assert Share.parse("2/3") == Share(2, 3)
    owners = [[number for number in range(1, 5) if Share(number, 4).takes(shard)] for shard in range(20)]
    assert all(len(owner) == 1 for owner in owners)
