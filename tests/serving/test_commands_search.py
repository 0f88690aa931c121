"""`nsh search`, from images to answers."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.commands import run_nsh

from nsh.serving.encoder import Encoder
from nsh.serving.index import Index


def nsh(*arguments):
    return run_nsh("search", *arguments)


@pytest.fixture(scope="module")
def place(tmp_path_factory, photographs, encoder_path):
    """30 photographs in a folder, and an index of them; the encoder's digest is the index's."""
    folder = tmp_path_factory.mktemp("search")
    names = [f"{'even' if row % 2 == 0 else 'odd'}-{row}.png" for row in range(30)]
    for row, name in enumerate(names):
        Image.fromarray(photographs[row]).save(folder / name)
    encoder = Encoder(encoder_path, threads=1)
    index = Index.create(folder / "index", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    index.add(
        names,
        encoder.encode([folder / name for name in names]),
        encoder_identity=encoder.identity,
        metadata=[{"third": str(row % 3)} for row in range(30)],
    )
    index.close()
    return folder


def test_an_image_finds_itself_first(place, encoder_path):
    query = place / "even-4.png"
    result = nsh(query, "--model", encoder_path, "--index", place / "index", "-k", 5, "--json")
    assert result.returncode == 0, result.stderr
    (answer,) = json.loads(result.stdout)
    assert answer["image"] == str(query)
    assert len(answer["hits"]) == 5
    distances = [hit["distance"] for hit in answer["hits"]]
    assert distances == sorted(distances)
    assert "even-4.png" in [hit["id"] for hit in answer["hits"] if hit["distance"] == 0]


def test_filters_and_radius(place, encoder_path):
    common = [place / "odd-3.png", "--model", encoder_path, "--index", place / "index", "--json"]
    (answer,) = json.loads(nsh(*common, "--radius", 12, "--prefix", "odd", "--where", "third=0").stdout)
    assert sorted(hit["id"] for hit in answer["hits"]) == sorted(f"odd-{row}.png" for row in range(30) if row % 6 == 3)
    (answer,) = json.loads(nsh(*common, "--radius", 0).stdout)
    assert {hit["distance"] for hit in answer["hits"]} == {0}


def test_reranked_hits_have_their_scores(place, encoder_path):
    query = place / "query.png"
    Image.open(place / "even-4.png").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(query)
    common = [query, "--model", encoder_path, "--index", place / "index", "--rerank"]
    encoder, index = Encoder(encoder_path, threads=1), Index.open(place / "index", readonly=True)
    (expected,) = index.search_reranked(encoder.logits([query]), k=30)
    scores = [hit.score for hit in expected]
    assert scores == sorted(scores, reverse=True)
    (answer,) = json.loads(nsh(*common, "-k", 30, "--json").stdout)
    assert answer["hits"] == [hit._asdict() for hit in expected]
    first = expected[0]
    line = f"{first.distance:>5}  {first.score:>10.5g}  {first.id}  third={first.metadata['third']}\n"
    assert nsh(*common, "-k", 1).stdout == line
    (within,) = json.loads(nsh(*common, "-k", 1, "--radius", 5, "--json").stdout)
    assert within["hits"] == [hit._asdict() for hit in expected if hit.distance <= 5]


@pytest.mark.parametrize("extra", [[], ["--radius", 3], ["--rerank"]])
def test_one_index_is_searched_by_the_first_bits_and_so_is_an_index_of_them(place, nested_path, tmp_path, extra):
    encoder, query = Encoder(nested_path, threads=1), place / "odd-5.png"
    names = sorted(path.name for path in place.glob("*-*.png"))
    codes = {name: code for name, code in zip(names, encoder.encode([place / name for name in names]), strict=True)}
    order = [f"{'even' if row % 2 == 0 else 'odd'}-{row}.png" for row in range(30)]
    short = Index.create(tmp_path / "short", bits=8, encoder_identity=encoder.identity)
    short.add(order, np.stack([codes[name][:1] for name in order]), encoder_identity=encoder.identity)
    common = [query, "--model", nested_path, "-k", 30, "--json", *extra]
    (by_first,) = json.loads(nsh(*common, "--index", place / "index", "--bits", 8).stdout)
    (by_short,) = json.loads(nsh(*common, "--index", short.folder).stdout)
    for hits in (by_first["hits"], by_short["hits"]):
        for hit in hits:
            assert hit["distance"] == int(np.unpackbits(codes[hit["id"]][:1] ^ codes["odd-5.png"][:1]).sum())
            hit.pop("metadata")  # the shorter index has none
    assert by_first == by_short
    if not extra:
        away = {hit["id"]: hit["distance"] for hit in by_first["hits"]}
        assert list(away) == sorted(order, key=away.__getitem__)  # equal distances in the order of insertion


def test_bits_are_refused_in_one_sentence_where_first_bits_are_no_codes(place, encoder_path, nested_path):
    short = Index.create(place / "eight", bits=8, encoder_identity=Encoder(nested_path, threads=1).identity)
    other = Index.create(place / "another", bits=8, encoder_identity="b" * 64)
    for model, index, bits, message in (
        (encoder_path, place / "index", ["--bits", 8], "the codes have 12 and cannot be cut"),
        (encoder_path, short.folder, [], "found 8 bits, the codes have 12 and cannot be cut"),
        (nested_path, place / "index", ["--bits", 9], "found 9 bits, the codes can be cut to 8, 12: choose one"),
        (nested_path, short.folder, ["--bits", 12], "found 12 bits, the codes have 8 and cannot be cut"),
        (nested_path, other.folder, [], "use the index's own"),
    ):
        result = nsh(place / "odd-1.png", "--model", model, "--index", index, *bits)
        assert result.returncode == 2
        assert result.stderr.startswith("error: ")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


def test_text_for_people_and_a_bad_image_beside_a_good_one(place, encoder_path):
    (place / "broken.jpg").write_text("no image")
    arguments = [place / "odd-1.png", place / "broken.jpg", "--model", encoder_path, "--index", place / "index"]
    result = nsh(*arguments, "-k", 30)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{place / 'odd-1.png'}:\n")
    assert "    0  odd-1.png  third=1\n" in result.stdout
    assert result.stdout.count("\n") == 31
    assert result.stderr.startswith(f"{place / 'broken.jpg'}: not an image")


def test_an_index_of_another_encoder_is_refused(place, encoder_path, tmp_path):
    Index.create(tmp_path / "index", bits=12, encoder_identity="f" * 64).close()
    result = nsh(place / "odd-1.png", "--model", encoder_path, "--index", tmp_path / "index")
    assert result.returncode == 2
    assert result.stderr.startswith("error: the index holds codes of the encoder ffffffffffff, found the encoder ")


def test_a_filter_is_written_column_equals_value(place, encoder_path):
    common = [place / "odd-1.png", "--model", encoder_path, "--index", place / "index"]
    assert "it is written column=value" in nsh(*common, "--where", "third").stderr
    assert "no item has the metadata column 'colour': there are third" in nsh(*common, "--where", "colour=red").stderr
