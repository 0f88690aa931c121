"""A stranger's page neither reads from the service nor changes it."""

import pytest

from nsh.serving.service.admission import Hosts, host_of

LOCAL = ["localhost", "LOCALHOST:8000", "localhost.", "photos.localhost", "127.0.0.1:8000", "127.0.0.9", "[::1]:8000"]
FOREIGN = ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "evil.example."]
NO_HOST = ["", "a b", "localhost@evil.example", "evil.example/localhost", "[localhost]", "::1", "localhost:x"]


def is_own(host, listens_at="127.0.0.1", allowed=()):
    return host_of(host) in Hosts(listens_at, allowed=allowed)


@pytest.mark.parametrize("listens_at", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "192.168.1.5"])
def test_everywhere_it_is_localhost_and_no_name_of_a_stranger(listens_at):
    assert all(is_own(host, listens_at) for host in LOCAL)
    assert not any(is_own(host, listens_at) for host in FOREIGN + NO_HOST)


@pytest.mark.parametrize("host", ["192.168.1.5", "[fd00::5]:80", "search:8000"])
def test_addresses_and_names_without_a_dot_are_its_own_where_others_reach_it(host):
    assert is_own(host, "0.0.0.0")
    assert not is_own(host, "127.0.0.1")


def test_the_name_that_it_listens_at_is_its_own():
    assert is_own("Photos.example:8000", "photos.example")
    assert not is_own("example:8000", "localhost")


def test_further_names_are_given():
    allowed = ["images.example", "*.Internal.example"]
    assert is_own("IMAGES.example:443", allowed=allowed)
    assert is_own("a.b.internal.example", allowed=allowed)
    assert not any(is_own(host, allowed=allowed) for host in ("internal.example", "notimages.example", *FOREIGN))
    assert all(is_own(host, allowed=["*"]) for host in LOCAL + FOREIGN)


@pytest.mark.parametrize("path", ["/", "/v1/thumbnail?id=left/00.png", "/v1/info", "/healthz", "/nothing"])
def test_a_name_that_is_not_the_services_own_gets_nothing(client, path):
    answer = client.get(path, Host="evil.example")
    assert (answer.status, answer.json["type"]) == (400, "urn:nsh:problem:unknown-host")
    assert "--allowed-hosts" in answer.json["detail"]


def test_a_given_name_is_answered(serve):
    with serve(allowed_hosts=("images.example",)) as client:
        assert client.get("/v1/info", Host="images.example").status == 200
        assert client.get("/v1/info", Host="evil.example").status == 400


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_what_a_strangers_page_sends_is_refused_and_what_it_shows_is_not(client, picture, headers):
    for method, path in (("POST", "/v1/encode"), ("PUT", "/v1/items/x"), ("DELETE", "/v1/items/left/00.png")):
        answer = client.ask(method, path, picture, Authorization="Bearer a token of the tests", **headers)
        assert (answer.status, answer.json["type"]) == (403, "urn:nsh:problem:cross-site")
    assert client.get("/v1/info", **headers).json["items"] == 30


def test_the_services_own_page_may_ask(serve, picture):
    with serve(allowed_hosts=("images.example",)) as client:
        own = f"127.0.0.1:{client.port}"
        for headers in (
            {"Origin": f"http://{own}"},
            {"Origin": f"http://{own}", "Sec_Fetch_Site": "same-origin"},
            {"Origin": "https://proxy.example", "Sec_Fetch_Site": "same-origin"},  # a proxy that changes Host
            {"Origin": "https://images.example"},
        ):
            assert client.post_image("/v1/encode", picture, **headers).status == 200
