"""The items' images, asked of a real server."""

import io

import numpy as np
import pytest
from PIL import Image

from nsh.serving.index import Index

ROUTES = ("/v1/thumbnail", "/v1/image")


def test_thumbnails_are_of_items_under_the_root(client, gallery):
    answer = client.get("/v1/thumbnail?id=left/00.png")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/webp")
    made = np.asarray(Image.open(io.BytesIO(answer.body)).convert("RGB")).astype(int)
    assert abs(made - np.asarray(Image.open(gallery / "left" / "00.png"))).mean() < 12


@pytest.mark.parametrize("id", ["nobody", "../index/index.sqlite", "..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "%00"])
def test_nothing_else_has_a_picture(client, id):
    for route in ROUTES:
        assert client.get(f"{route}?id={id}").status == 404


def test_an_item_that_leads_outside_has_no_picture(serve, index_path, encoder, gallery, tmp_path):
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
            for route in ROUTES:
                assert client.get(f"{route}?id={id}").status == 404


def test_a_file_of_the_root_that_is_no_item_has_no_picture(client, gallery):
    (gallery / "stray.png").write_bytes((gallery / "left" / "00.png").read_bytes())
    try:
        for route in ROUTES:
            assert client.get(f"{route}?id=stray.png").status == 404
    finally:
        (gallery / "stray.png").unlink()


def test_without_images_there_are_no_pictures(serve):
    with serve(images=None) as client:
        for route in ROUTES:
            assert client.get(f"{route}?id=left/00.png").status == 404
        assert client.get("/v1/info").json["thumbnails"] is False


def test_a_file_is_served_as_it_is(client, gallery):
    for question, place in (("", "inline"), ("&download=true", "attachment"), ("&download=false", "inline")):
        answer = client.get(f"/v1/image?id=left/00.png{question}")
        assert (answer.status, answer.headers["content-type"]) == (200, "image/png")
        assert answer.headers["content-disposition"] == f'{place}; filename="00.png"'
        assert answer.body == (gallery / "left" / "00.png").read_bytes()
    assert client.get("/v1/image?id=left/00.png&download=x").status == 422


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "scan.tif", "nothing", "page.png.html"])
def test_what_no_browser_shows_is_never_shown(serve, index_path, encoder, tmp_path, name):
    root = tmp_path / "root"
    root.mkdir()
    (root / name).write_text("<script>alert(1)</script>")
    Index.open(index_path).add([name], np.zeros((1, 2), np.uint8), encoder_identity=encoder.identity)
    with serve(images=root) as client:
        answer = client.get(f"/v1/image?id={name}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
