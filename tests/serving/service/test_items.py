"""Only the bearer of the token changes items, and what is changed is found."""

import shutil

import pytest

from nsh.serving.index import Index, database
from nsh.serving.service import items, schemas

BEARER = {"Authorization": "Bearer a token of the tests"}


def test_without_a_token_nothing_is_changed(serve, picture):
    with serve(token=None) as client:
        answer = client.ask("PUT", "/v1/items/new", picture, Content_Type="image/png", **BEARER)
        assert (answer.status, answer.json["type"]) == (403, "urn:nsh:problem:read-only")
        assert client.get("/v1/info").json["items"] == 30


@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", "Basic a token of the tests", "Bearer ünï"])
def test_another_token_is_refused(client, picture, given):
    headers = {} if given is None else {"Authorization": given}
    for method, path in (("PUT", "/v1/items/new"), ("POST", "/v1/items"), ("DELETE", "/v1/items/left/00.png")):
        answer = client.ask(method, path, picture, Content_Type="image/png", **headers)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert client.get("/v1/info").json["items"] == 30


def test_an_item_is_added_updated_and_deleted(client, picture):
    path = "/v1/items/new/ünï.png?metadata=side%3Dnone".replace("ü", "%C3%BC").replace("ï", "%C3%AF")
    added = client.ask("PUT", path, picture, Content_Type="image/png", **BEARER)
    assert schemas.Changed.model_validate(added.json)
    assert (added.status, added.json["items"]) == (200, 31)
    found = client.post_image("/v1/search?radius=0&column=side&value=none", picture).json["hits"]
    assert found == [{"id": "new/ünï.png", "distance": 0, "metadata": {"side": "none"}}]

    code = {"code": "fff0", "metadata": {"side": "far"}}
    updated = client.post_json("/v1/items/new/%C3%BCn%C3%AF.png", code, method="PUT", **BEARER)
    assert updated.json["items"] == 31
    assert client.post_json("/v1/search?k=1", {"code": "fff0"}).json["hits"][0]["metadata"] == {"side": "far"}

    deleted = client.ask("DELETE", "/v1/items/new/%C3%BCn%C3%AF.png", **BEARER)
    assert deleted.json["items"] == 30
    assert client.post_json("/v1/search", {"id": "new/ünï.png"}).status == 404
    assert client.ask("DELETE", "/v1/items/new/%C3%BCn%C3%AF.png", **BEARER).status == 404


def test_a_form_adds_several_and_tells_of_those_it_left_out(client, picture):
    answer = client.post_form("/v1/items", [("a", picture), ("b", b"no image"), ("c", picture)], **BEARER)
    assert (answer.json["changed"], answer.json["items"]) == (2, 32)
    assert [error["name"] for error in answer.json["errors"]] == ["b"]


def test_files_need_names_of_their_own_that_can_be_ids(client, picture):
    for files in ([("a", picture), ("a", picture)], [("", picture)], [("a" * 1025, picture)]):
        assert client.post_form("/v1/items", files, **BEARER).status == 422
    assert client.get("/v1/info").json["items"] == 30


def test_an_id_is_as_long_however_it_comes(client, picture):
    longest = "a" * 1024
    assert client.post_form("/v1/items", [(longest, picture)], **BEARER).status == 200
    assert client.ask("DELETE", f"/v1/items/{longest}", **BEARER).status == 200
    assert client.ask("DELETE", f"/v1/items/{longest}a", **BEARER).status == 422


def test_an_id_that_is_no_utf8_is_refused(client, picture):
    """`%FF` and `%FE` would both become the replacement character, and one item."""
    assert client.ask("PUT", "/v1/items/%FF", picture, Content_Type="image/png", **BEARER).status == 422
    assert client.get("/v1/thumbnail?id=%FF").status == 422


@pytest.mark.parametrize("item", [{"code": "00"}, {"code": "fff0", "metadata": {"a": 1}}, {}, {"code": "ffff"}])
def test_what_is_no_item_is_said(client, item):
    assert client.post_json("/v1/items/x", item, method="PUT", **BEARER).status == 422


def test_metadata_are_pairs(client, picture):
    answer = client.ask("PUT", "/v1/items/x?metadata=side", picture, Content_Type="image/png", **BEARER)
    assert answer.status == 422


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("filename*=utf-8''n%C3%A9.png", 200),
        ("filename=\"=?utf-8?B?bsOpLnBuZw==?=\"; filename*=utf-8''n%C3%A9.png", 200),
        ("filename*=utf-8''n%FF.png", 422),
    ],
)
def test_the_id_of_a_forms_file_is_the_name_that_its_client_means(client, picture, name, status):
    head = f"--edge\r\nContent-Disposition: form-data; name=image; {name}\r\n\r\n".encode()
    kind = "multipart/form-data; boundary=edge"
    answer = client.ask("POST", "/v1/items", head + picture + b"\r\n--edge--\r\n", Content_Type=kind, **BEARER)
    assert answer.status == status
    found = client.post_image("/v1/search?radius=0&id_prefix=n", picture).json["hits"]
    assert [hit["id"] for hit in found] == (["né.png"] if status == 200 else [])


def test_a_full_disk_is_507_until_there_is_room(serve, index_path, tmp_path, mount):
    volume = tmp_path / "volume"
    volume.mkdir()
    mount("-t", "tmpfs", "-o", "size=2m", "none", volume)
    shutil.copytree(index_path, volume / "index")
    with serve(index=volume / "index", refresh=0.05) as client:
        item = {"code": "fff0"}
        (volume / "filler").write_bytes(bytes(shutil.disk_usage(volume).free - 8192))
        refused = client.post_json("/v1/items/new", item, method="PUT", **BEARER)
        assert (refused.status, refused.json["type"]) == (507, "urn:nsh:problem:disk-full")
        assert "free some space" in refused.json["detail"]
        ready = client.get("/readyz")
        assert (ready.status, "the disk is full" in ready.json["detail"]) == (503, True)
        assert client.post_json("/v1/search", {"id": "left/00.png"}).status == 200
        (volume / "filler").unlink()
        while client.get("/readyz").status != 200:  # it looks by itself
            pass
        assert client.post_json("/v1/items/new", item, method="PUT", **BEARER).json["items"] == 31


def test_an_index_that_cannot_be_written_is_read_only(serve, index_path, tmp_path, mount_read_only):
    mount_read_only(index_path, tmp_path / "mounted")
    with serve(index=tmp_path / "mounted") as client:
        answer = client.post_json("/v1/items/new", {"code": "fff0"}, method="PUT", **BEARER)
        assert (answer.status, answer.json["type"]) == (403, "urn:nsh:problem:read-only")
        assert client.get("/readyz").status == 200


def test_an_index_that_another_process_is_changing_is_busy(client, index_path, monkeypatch):
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.05)
    with database.writing(index_path):
        answer = client.post_json("/v1/items/new", {"code": "fff0"}, method="PUT", **BEARER)
        assert (answer.status, answer.json["type"]) == (503, "urn:nsh:problem:busy")
        assert answer.headers["retry-after"] == "1"
        assert client.post_json("/v1/search", {"id": "left/00.png"}).status == 200


def test_an_item_that_another_process_has_just_removed_is_not_found(client, index_path, monkeypatch):
    async def find_and_lose(service, id):
        Index.open(index_path).remove([id])

    monkeypatch.setattr(items, "find_item", find_and_lose)
    answer = client.ask("DELETE", "/v1/items/left/00.png", **BEARER)
    assert (answer.status, answer.json["type"]) == (404, "urn:nsh:problem:not-found")


def test_a_damaged_index_is_called_so(client, index_path):
    path = index_path / database.FILE
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    answer = client.post_json("/v1/search", {"code": "fff0"})
    assert (answer.status, answer.json["type"]) == (500, "urn:nsh:problem:damaged")
    assert "restore a backup" in answer.json["detail"]


def test_every_answer_is_of_one_version(client):
    """Each version has the item at another code and with another text."""
    for turn in range(20):
        item = {"code": f"{turn:02x}00", "metadata": {"turn": str(turn)}}
        version = client.post_json("/v1/items/moving", item, method="PUT", **BEARER).json["version"]
        found = client.post_json(f"/v1/search?column=turn&value={turn}", {"id": "moving"}).json
        assert (found["version"], found["code"]) == (version, f"{turn:02x}00")
        assert found["hits"] == [{"id": "moving", "distance": 0, "metadata": {"turn": str(turn)}}]
