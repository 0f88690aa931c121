"""Query parameters: a route takes its own, and says of another one which it has."""

import pytest


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("POST", "/v1/search?prefix=left/", "bits, column, id_prefix, k, radius, rerank, value"),
        ("GET", "/v1/info?verbose=1", "none"),
        ("POST", "/v1/encode?k=3", "none"),
        ("GET", "/v1/thumbnail?id=left/00.png&size=64", "id"),
        ("GET", "/v1/image?id=left/00.png&size=64", "download, id"),
    ],
)
def test_a_parameter_that_a_route_has_not_is_refused(client, method, address, allowed):
    answer = client.ask(method, address)
    assert (answer.status, answer.json["type"]) == (422, "urn:nsh:problem:invalid")
    assert answer.json["detail"].endswith(f", allowed here are: {allowed}")


@pytest.mark.parametrize(
    "address", ["/healthz?from=balancer", "/readyz?from=balancer", "/metrics?from=balancer", "/?id=a"]
)
def test_what_is_not_the_interface_takes_any(client, address):
    assert client.get(address).status == 200
