"""Every request has an id, a line in the log without its content, and headers that keep browsers strict."""

import json
import logging

import pytest
from tests.waiting import wait_until

from nsh.serving.encoder import Encoder
from nsh.serving.service.logs import JsonFormatter


@pytest.fixture
def wait_for(caplog):
    """The lines of the log so far, once one has `event`: a request is logged after its answer has left."""
    caplog.set_level(logging.INFO, logger="nsh.service")

    def found():
        records = [record for record in caplog.records if record.name == "nsh.service"]
        return [json.loads(JsonFormatter().format(record)) for record in records]

    def lines(event):
        wait_until(lambda: any(line["event"] == event for line in found()))
        return found()

    return lines


def test_a_request_is_one_line_without_image_code_or_token(client, wait_for, picture):
    answer = client.post_image("/v1/search?k=3", picture, X_Request_ID="of-the-client.1", Authorization="Bearer secret")
    (line,) = wait_for("request")
    assert answer.headers["x-request-id"] == line["request_id"] == "of-the-client.1"
    assert (line["method"], line["route"], line["status"], line["images"]) == ("POST", "/v1/search", 200, 1)
    assert line["bytes_in"] == len(picture)
    assert line["milliseconds"] > 0
    assert "secret" not in json.dumps(line)
    assert answer.json["code"] not in json.dumps({**line, "request_id": ""})


@pytest.mark.parametrize("given", ["a b", "x" * 65, '"}\n', ""])
def test_an_id_that_could_spoil_a_log_is_replaced(client, given):
    answer = client.get("/v1/info", X_Request_ID=given.replace("\n", " "))
    assert len(answer.headers["x-request-id"]) == 32


def test_machines_that_ask_how_it_is_fill_no_log(client, wait_for):
    client.get("/healthz")
    client.get("/metrics")
    client.get("/v1/info")
    assert [line["route"] for line in wait_for("request")] == ["/v1/info"]


@pytest.mark.parametrize("method", ["BREW", "get", "X" * 5000])
def test_methods_of_the_clients_own_are_counted_as_one(client, method):
    assert client.ask(method, "/v1/info").status == client.ask(f"{method}1", "/v1/info").status == 405
    lines = [
        line for line in client.get("/metrics").body.decode().splitlines() if line.startswith("nsh_requests_total")
    ]
    assert [line for line in lines if "405" in line] == [
        'nsh_requests_total{method="other",route="/v1/info",status="405"} 2.0'
    ]


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/v1/info", "/", "/openapi.json", "/v1/thumbnail?id=left/00.png"]
)
def test_what_answers_get_answers_head_without_a_body(client, path):
    by_get, by_head = client.get(path), client.ask("HEAD", path)
    assert (by_head.status, by_head.body) == (200, b"")
    assert by_head.headers["content-type"] == by_get.headers["content-type"]
    assert int(by_head.headers["content-length"]) > 0


def test_what_is_not_for_get_is_not_for_head(client):
    assert client.ask("HEAD", "/v1/encode").status == 405


def test_a_failure_is_a_problem_with_the_id_of_its_traceback(serve, wait_for, picture, monkeypatch):
    with serve() as client:
        monkeypatch.setattr(Encoder, "run_batch", lambda self, sources: 1 / 0)
        answer = client.post_image("/v1/encode", picture)
    failed = next(line for line in wait_for("failed") if line["event"] == "failed")
    assert (answer.status, answer.json["type"]) == (500, "urn:nsh:problem:internal")
    assert answer.json["request_id"] == failed["request_id"]
    assert "ZeroDivisionError" in failed["traceback"]
    assert "division" not in answer.body.decode()


def test_every_answer_is_strict(client):
    for path in ("/", "/page.js", "/v1/info", "/nothing", "/v1/thumbnail?id=left/00.png"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
