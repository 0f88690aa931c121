"""URLs of Milvus collections, and addresses where no Milvus answers. Milvus itself is not needed."""

import pytest
from tests.commands import run_nsh
from tests.ports import keep_port

from nsh.errors import ConfigError, IndexMissing, IndexUnusable
from nsh.serving.engines.milvus_address import parse
from nsh.serving.engines.milvus_connection import knock
from nsh.serving.engines.opening import open_engine
from nsh.serving.index import Index


@pytest.mark.parametrize(
    ("url", "uri", "collection"),
    [
        ("milvus://10.0.0.1:19530/photos", "http://10.0.0.1:19530", "photos"),
        ("milvus://milvus-1.local:19530/a_1", "http://milvus-1.local:19530", "a_1"),
        ("milvus:///data/my photos/index.db/photos", "/data/my photos/index.db", "photos"),
        ("milvus:///index.db/photos", "/index.db", "photos"),
    ],
)
def test_a_url_names_a_server_or_a_file_and_a_collection(url, uri, collection):
    address = parse(url)
    assert (address.uri, address.collection, address.url) == (uri, collection, url)
    assert (address.file is None) == uri.startswith("http")


@pytest.mark.parametrize(
    "url",
    [
        *("milvus:", "milvus://", "milvus://host/photos", "milvus://host:19530", "milvus://host:0/photos"),
        *(
            "milvus://host:70000/photos",
            "milvus://host:19530/my-photos",
            "milvus://host:19530/a/b",
            "milvus:/a.db/photos",
        ),
        *("milvus:///a b.db/photos", "milvus:///data/a b.db/photos", f"milvus:///{'a' * 37}/photos"),
        "milvus://user@host:19530/photos",
    ],
)
def test_another_url_is_refused(url):
    with pytest.raises(ConfigError, match=r"allowed are milvus://HOST:PORT/COLLECTION and, for Milvus Lite"):
        open_engine(url)


def test_everything_else_is_a_folder(tmp_path):
    assert parse("index") is None
    Index.create(tmp_path / "milvus", bits=8, encoder_identity="a" * 64)
    assert open_engine(tmp_path / "milvus").bits == 8


def test_where_nobody_listens_the_reason_is_named():
    with keep_port() as port:
        url = f"milvus://127.0.0.1:{port}/photos"
        with pytest.raises(IndexUnusable, match=rf"no Milvus answers at {url} \(Connection refused\)"):
            knock(parse(url))
    with pytest.raises(IndexUnusable, match=r"no Milvus answers at milvus://no-such-host\.invalid:19530/photos"):
        knock(parse("milvus://no-such-host.invalid:19530/photos"))
    with pytest.raises(IndexMissing, match="there is no folder /no/such"):
        knock(parse("milvus:///no/such/index.db/photos"))


def test_commands_say_so_in_one_sentence(golden_encoder):
    with keep_port() as port:
        url = f"milvus://127.0.0.1:{port}/photos"
        run = run_nsh("serve", "--model", golden_encoder, "--index", url)
    assert (run.returncode, run.stdout) == (2, "")
    assert (
        run.stderr
        == f"error: no Milvus answers at {url} (Connection refused): check the address, and that the server is up\n"
    )
