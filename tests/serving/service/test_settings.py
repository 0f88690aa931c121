"""Settings are checked together, and keep the token to themselves."""

from pathlib import Path

import pytest

from nsh.errors import ConfigError
from nsh.serving.service.settings import Settings

PATHS = {"model": Path("encoder.onnx"), "index": Path("index")}


def test_the_defaults_are_allowed():
    settings = Settings(**PATHS)
    assert settings.token is None
    assert settings.images is None


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    with pytest.raises(ConfigError) as failure:
        Settings(**PATHS, queue=0, timeout=-1.0, token="short", images=tmp_path / "nowhere")
    for part in ("queue: found 0, allowed are 1 to", "timeout: found -1.0", "at least 16", "no folder"):
        assert part in str(failure.value)


@pytest.mark.parametrize("name", ["threads", "batch", "max_body", "max_pixels", "max_images", "queue"])
def test_every_limit_is_at_least_one(name):
    with pytest.raises(ConfigError, match=f"{name}: found 0"):
        Settings(**PATHS, **{name: 0})


def test_connections_outlast_those_of_balancers():
    assert Settings(**PATHS).keep_alive > 60
    with pytest.raises(ConfigError, match="keep_alive: found 0, allowed are 1 to 3600"):
        Settings(**PATHS, keep_alive=0)


@pytest.mark.parametrize("name", ["http://a.example", "a.example:80", "*a.example", "a.*", "", "a b"])
def test_what_is_no_name_of_a_host_is_said(name):
    with pytest.raises(ConfigError, match=r"allowed hosts: found .* allowed are images.example.org"):
        Settings(**PATHS, allowed_hosts=("good.example", name))


def test_a_token_must_be_sendable():
    with pytest.raises(ConfigError, match="ASCII"):
        Settings(**PATHS, token="ein Schlüssel, der lang genug ist")


def test_the_token_is_not_shown():
    assert "secret" not in repr(Settings(**PATHS, token="a secret of the house"))
