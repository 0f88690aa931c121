"""Searches, asked of a real server."""

import io

import pytest
from PIL import Image, ImageOps
from tests.serving.service.conftest import TOKEN

from nsh.core.codes import first_bits
from nsh.core.hamming import distances, rank
from nsh.core.reranking import rerank
from nsh.serving.index import Index
from nsh.serving.service import schemas


def flipped(path):
    content = io.BytesIO()
    ImageOps.mirror(Image.open(path)).save(content, "PNG")
    return content.getvalue()


def test_searching_with_an_image_finds_what_a_loop_finds(client, encoder, gallery, picture):
    answer = client.post_image("/v1/search?k=7", picture)
    assert schemas.Neighbours.model_validate(answer.json)
    paths = sorted(gallery.rglob("*.png"))
    away = distances(encoder.encode([picture]), encoder.encode(paths))[0]
    order = sorted(range(len(paths)), key=lambda row: (away[row], row))[:7]
    expected = [(paths[row].relative_to(gallery).as_posix(), int(away[row])) for row in order]
    assert [(hit["id"], hit["distance"]) for hit in answer.json["hits"]] == expected
    assert expected[0] == ("left/00.png", 0)


def test_image_code_and_id_find_the_same(client, picture):
    by_image = client.post_image("/v1/search", picture).json
    by_code = client.post_json("/v1/search", {"code": by_image["code"].upper()}).json
    by_id = client.post_json("/v1/search", {"id": "left/00.png"}).json
    by_form = client.post_form("/v1/search", [("x.png", picture)]).json
    assert by_image == by_form
    assert by_code == by_id == {**by_image, "logits": None}
    assert len(by_image["hits"]) == 10


def test_a_radius_is_inclusive_and_may_be_cut_to_k(client, picture):
    everything = client.post_image("/v1/search?k=1000", picture).json["hits"]
    assert len(everything) == 30
    radius = everything[12]["distance"]
    within = client.post_image(f"/v1/search?radius={radius}", picture).json["hits"]
    assert within == [hit for hit in everything if hit["distance"] <= radius]
    assert client.post_image(f"/v1/search?radius={radius}&k=2", picture).json["hits"] == within[:2]


def test_a_reranked_search_finds_what_a_loop_finds(client, encoder, gallery):
    """Of an image that is not in the index, so that its logits are not those of a hit."""
    paths, query = sorted(gallery.rglob("*.png")), flipped(gallery / "left" / "04.png")
    codes, (logits,) = encoder.encode(paths), encoder.logits([query])
    away = distances(encoder.encode([query]), codes)[0]
    nearest = sorted(range(len(paths)), key=lambda row: (away[row], row))
    places, scores = rerank(logits, codes[nearest])
    names = [paths[nearest[place]].relative_to(gallery).as_posix() for place in places]
    answer = client.post_image("/v1/search?k=30&rerank=true", query)
    assert schemas.Neighbours.model_validate(answer.json)
    assert [(hit["id"], hit["score"]) for hit in answer.json["hits"]] == list(zip(names, scores.tolist(), strict=True))
    by_bits = client.post_image("/v1/search?k=30", query).json["hits"]
    assert {hit["id"]: hit["distance"] for hit in answer.json["hits"]} == {
        hit["id"]: hit["distance"] for hit in by_bits
    }
    assert not any("score" in hit for hit in by_bits)
    assert answer.json["logits"] == logits.tolist()
    again = client.post_json("/v1/search?k=30&rerank=true", {"logits": answer.json["logits"]}).json
    assert again == answer.json
    by_code = client.post_json("/v1/search?k=30", {"code": answer.json["code"]}).json
    assert client.post_json("/v1/search?k=30", {"logits": logits.tolist()}).json["hits"] == by_code["hits"]
    assert by_code["logits"] is None
    by_form = client.post_form("/v1/search?k=4&rerank=true&id_prefix=left/&radius=9", [("x.png", query)]).json["hits"]
    left = [hit for hit in answer.json["hits"] if hit["id"].startswith("left/") and hit["distance"] <= 9]
    assert by_form == left[:4]


def test_nested_codes_are_searched_by_their_first_bits(serve, nested_path, encoder, gallery, picture):
    paths = sorted(gallery.rglob("*.png"))
    codes, query = first_bits(encoder.encode(paths), bits=8), first_bits(encoder.encode([picture]), bits=8)
    (rows,), (away,) = rank(query, codes, k=30)
    expected = [(paths[row].relative_to(gallery).as_posix(), int(near)) for row, near in zip(rows, away, strict=True)]
    with serve(model=nested_path) as client:
        assert client.get("/v1/info").json["lengths"] == [8, 12]
        answer = client.post_image("/v1/search?k=30&bits=8", picture).json
        assert schemas.Neighbours.model_validate(answer)
        assert [(hit["id"], hit["distance"]) for hit in answer["hits"]] == expected
        assert (answer["bits"], answer["compared"]) == (12, 8)
        by_code = client.post_json("/v1/search?k=30&bits=8", {"code": answer["code"]}).json["hits"]
        by_id = client.post_json("/v1/search?k=30&bits=8", {"id": "left/00.png"}).json["hits"]
        assert by_code == by_id == answer["hits"]
        whole = client.post_image("/v1/search?k=30&bits=12", picture).json
        assert whole == client.post_image("/v1/search?k=30", picture).json
        assert whole["hits"] != answer["hits"]
        reranked = client.post_image("/v1/search?k=30&bits=8&rerank=true", picture).json["hits"]
        assert {hit["id"]: hit["distance"] for hit in reranked} == dict(expected)
        refused = client.post_image("/v1/search?bits=9", picture)
        assert refused.json["detail"] == "found 9 bits, the codes can be cut to 8, 12: choose one of these"
        assert (refused.status, refused.json["type"]) == (422, "urn:nsh:problem:invalid")


def test_an_index_of_the_first_bits_is_served_by_the_encoder_that_made_them(
    serve, nested_path, encoder, gallery, picture, tmp_path
):
    paths = sorted(gallery.rglob("*.png"))
    names = [path.relative_to(gallery).as_posix() for path in paths]
    codes = first_bits(encoder.encode(paths), bits=8)
    short = Index.create(tmp_path / "short", bits=8, encoder_identity=encoder.identity)
    short.add(names, codes, encoder_identity=encoder.identity)
    with serve(model=nested_path, index=short.folder) as client:
        info = client.get("/v1/info").json
        assert (info["bits"], info["lengths"]) == (8, [8])
        answer = client.post_image("/v1/search?k=30", picture).json
        assert [hit._asdict() for hit in short.search(codes[:1], k=30)[0]] == answer["hits"]
        assert (answer["code"], len(answer["logits"])) == (codes[0].tobytes().hex(), 8)
        assert client.post_image("/v1/encode", picture).json["results"][0]["code"] == answer["code"]
        added = client.ask("PUT", "/v1/items/new", picture, Content_Type="image/png", Authorization=f"Bearer {TOKEN}")
        assert added.status == 200
        short.refresh()
        assert short.code_of("new").tolist() == codes[0].tolist()


@pytest.mark.parametrize("document", [{"id": "left/00.png"}, {"code": "0000"}, {"id": "nobody"}])
def test_what_has_no_logits_is_not_reranked(client, document):
    answer = client.post_json("/v1/search?rerank=true", document)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")
    assert answer.json["detail"] == "rerank needs logits, found a code or an id, which has none: send the image"
    assert client.post_json("/v1/search?rerank=false", {"id": "left/00.png"}).status == 200


def test_filters_are_for_ids_and_metadata(client, picture):
    by_prefix = client.post_image("/v1/search?k=30&id_prefix=left/", picture).json["hits"]
    by_column = client.post_image("/v1/search?k=30&column=side&value=left", picture).json["hits"]
    assert by_prefix == by_column
    assert len(by_prefix) == 15


@pytest.mark.parametrize(
    "query",
    [
        "k=0",
        "k=-1",
        "k=1001",
        "k=x",
        "k=1e9",
        "radius=-1",
        "radius=513",
        "column=side",
        "column=no&value=x",
        "rerank=x",
        "bits=0",
        "bits=8",  # the encoder's codes are not nested
        "bits=513",
        "prefix=left/",  # the command's word for id_prefix: it must not be a search without a filter
        "k=3&K=3",
    ],
)
def test_what_cannot_be_asked_is_said(client, picture, query):
    answer = client.post_image(f"/v1/search?{query}", picture)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")


@pytest.mark.parametrize(
    "document",
    [
        *(
            {},
            {"code": "00", "id": "a"},
            {"code": "0f0f0f"},
            {"code": "000f"},
            {"code": "xy"},
            {"code": 3},
            {"more": 1},
            [],
        ),
        *({"logits": []}, {"logits": [1.0] * 11}, {"logits": [1e39] * 12}, {"logits": ["x"] * 12}),
        *({"logits": [1.0] * 12, "id": "left/00.png"}, {"logits": [1.0] * 513}),
    ],
)
def test_what_is_no_query_is_said(client, document):
    answer = client.post_json("/v1/search", document)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")


@pytest.mark.parametrize("document", [{"x" * 100_000: 1}, {str(number): 1 for number in range(40_000)}])
def test_the_answer_to_a_wrong_document_is_short(client, document):
    answer = client.post_json("/v1/search", document)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")
    assert len(answer.body) < 1000


def test_a_document_longer_than_any_is_not_looked_at(client):
    assert client.post_json("/v1/search", {"id": "x" * 600_000}).status == 413


def test_an_unknown_item_is_not_found(client):
    assert client.post_json("/v1/search", {"id": "nobody"}).status == 404


def test_an_empty_index_finds_nothing(serve, encoder, tmp_path, picture):
    Index.create(tmp_path / "empty", bits=encoder.contract.bits, encoder_identity=encoder.identity)
    with serve(index=tmp_path / "empty") as client:
        answer = client.post_image("/v1/search", picture)
    assert (answer.status, answer.json["hits"]) == (200, [])
