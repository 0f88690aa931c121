"""What anyone may ask, asked of a real server."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.waiting import wait_until

from nsh.core.hamming import distances
from nsh.core.reranking import rerank
from nsh.serving.index import Index
from nsh.serving.service import schemas


def flipped(path):
    content = io.BytesIO()
    ImageOps.mirror(Image.open(path)).save(content, "PNG")
    return content.getvalue()


def test_one_image_as_the_body_gives_its_code(client, encoder, picture):
    answer = client.post_image("/v1/encode", picture)
    assert answer.status == 200
    assert schemas.Codes.model_validate(answer.json)
    assert answer.json["encoder_identity"] == encoder.identity
    assert answer.json["results"] == [
        {"name": None, "code": encoder.encode([picture])[0].tobytes().hex(), "error": None}
    ]


def test_a_bad_image_in_a_form_costs_no_other_its_code(client, encoder, picture):
    answer = client.post_form("/v1/encode", [("a.png", picture), ("b.png", b"no image"), ("c.png", picture)])
    first, bad, third = answer.json["results"]
    assert answer.status == 200
    assert (bad["name"], bad["code"]) == ("b.png", None)
    assert "not an image" in bad["error"]
    assert first["code"] == third["code"] == encoder.encode([picture])[0].tobytes().hex()


def test_only_bad_images_are_a_problem(client):
    answer = client.post_image("/v1/encode", b"no image")
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["type"] == "urn:nsh:problem:unreadable-image"
    assert schemas.ProblemDocument.model_validate(answer.json)


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
    assert by_image == by_code == by_id == by_form
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
    by_form = client.post_form("/v1/search?k=4&rerank=true&id_prefix=left/&radius=9", [("x.png", query)]).json["hits"]
    left = [hit for hit in answer.json["hits"] if hit["id"].startswith("left/") and hit["distance"] <= 9]
    assert by_form == left[:4]


@pytest.mark.parametrize("document", [{"id": "left/00.png"}, {"code": "0000"}, {"id": "nobody"}])
def test_what_has_no_logits_is_not_reranked(client, document):
    answer = client.post_json("/v1/search?rerank=true", document)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")
    assert answer.json["detail"] == "rerank needs an image, found a code or an id, which has no logits: send the image"
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
    ],
)
def test_what_cannot_be_asked_is_said(client, picture, query):
    answer = client.post_image(f"/v1/search?{query}", picture)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")


@pytest.mark.parametrize(
    "document",
    [{}, {"code": "00", "id": "a"}, {"code": "0f0f0f"}, {"code": "000f"}, {"code": "xy"}, {"code": 3}, {"more": 1}, []],
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


def test_thumbnails_are_of_items_under_the_root(client, gallery):
    answer = client.get("/v1/thumbnail?id=left/00.png")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/webp")
    made = np.asarray(Image.open(io.BytesIO(answer.body)).convert("RGB")).astype(int)
    assert abs(made - np.asarray(Image.open(gallery / "left" / "00.png"))).mean() < 12


@pytest.mark.parametrize("id", ["nobody", "../index/index.sqlite", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "%00"])
def test_nothing_else_has_a_thumbnail(client, id):
    assert client.get(f"/v1/thumbnail?id={id}").status == 404


def test_an_item_that_leads_outside_has_no_thumbnail(serve, index_path, encoder, gallery, tmp_path):
    (tmp_path / "secret.png").write_bytes((gallery / "left" / "00.png").read_bytes())
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    ids = ["../secret.png", str(tmp_path / "secret.png"), "link.png"]
    index = Index.open(index_path)
    index.add(ids, np.zeros((3, 2), np.uint8), encoder_identity=encoder.identity)
    with serve(images=root) as client:
        for id in ids:
            assert client.post_json("/v1/search", {"id": id}).status == 200
            assert client.get(f"/v1/thumbnail?id={id}").status == 404


def test_a_file_of_the_root_that_is_no_item_has_no_thumbnail(client, gallery):
    (gallery / "stray.png").write_bytes((gallery / "left" / "00.png").read_bytes())
    try:
        assert client.get("/v1/thumbnail?id=stray.png").status == 404
    finally:
        (gallery / "stray.png").unlink()


def test_without_images_there_are_no_thumbnails(serve):
    with serve(images=None) as client:
        assert client.get("/v1/thumbnail?id=left/00.png").status == 404
        assert client.get("/v1/info").json["thumbnails"] is False


def test_the_service_says_what_it_is(client, encoder):
    document = client.get("/v1/info").json
    assert schemas.Info.model_validate(document)
    assert (document["items"], document["bits"], document["encoder_identity"]) == (30, 12, encoder.identity)
    assert "token" not in document


def test_health_readiness_and_metrics(client, picture):
    client.post_image("/v1/encode", picture)
    assert client.get("/healthz").body == b"ok\n"
    assert client.get("/readyz").status == 200
    encoded = 'nsh_requests_total{method="POST",route="/v1/encode",status="200"} 1.0'
    for _ in range(200):  # a request is counted after its answer has left
        text = client.get("/metrics").body.decode()
        if encoded in text:
            break
    assert encoded in text
    assert 'nsh_images_total{outcome="encoded"} 1.0' in text
    assert "nsh_index_items 30.0" in text


def test_what_is_not_there_is_a_problem(client):
    assert client.get("/nothing").json["type"] == "urn:nsh:problem:not-found"
    assert client.get("/v1/encode").json["type"] == "urn:nsh:problem:method-not-allowed"
    assert client.get("/docs").status == 404  # its scripts would come from another host


def test_openapi_names_every_address_and_its_bodies(client):
    document = client.get("/openapi.json").json
    assert {"/v1/encode", "/v1/search", "/v1/items", "/v1/items/{id}", "/v1/info", "/metrics"} <= document[
        "paths"
    ].keys()
    assert "multipart/form-data" in document["paths"]["/v1/encode"]["post"]["requestBody"]["content"]


def test_the_index_is_followed_whoever_writes(serve, index_path, encoder, picture):
    with serve(refresh=0.05) as client:
        index = Index.open(index_path)
        index.add(["new"], encoder.encode([picture]), encoder_identity=encoder.identity)
        wait_until(lambda: client.get("/v1/info").json["items"] == 31)
