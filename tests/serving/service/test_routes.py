"""What anyone may ask, asked of a real server."""

from tests.waiting import wait_until

from nsh.serving.index import Index
from nsh.serving.service import schemas


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


def test_the_service_says_what_it_is(client, encoder):
    document = client.get("/v1/info").json
    assert schemas.Info.model_validate(document)
    assert (document["items"], document["bits"], document["encoder_identity"]) == (30, 12, encoder.identity)
    assert document["columns"] == ["side"]
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
