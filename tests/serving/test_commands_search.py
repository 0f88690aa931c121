"""`nsh search`, from images to answers."""

import json

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
