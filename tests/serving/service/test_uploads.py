"""Bodies are taken apart as they arrive, however they are cut, and never beyond what is allowed."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsh.serving.service.problems import Problem
from nsh.serving.service.uploads import FIELDS, Upload, read_images

FORM = 'multipart/form-data; boundary="edge"'
PART = b'--edge\r\nContent-Disposition: form-data; name="image"; filename="%s"\r\n\r\n%s\r\n'
TEXT = b'--edge\r\nContent-Disposition: form-data; name="note"\r\n\r\nnot a file\r\n'
END = b"--edge--\r\n"


def read(content_type, *chunks, limit=4):
    consumed = []

    async def stream():
        for chunk in chunks:
            consumed.append(chunk)
            yield chunk

    return asyncio.run(read_images(content_type, stream(), limit=limit)), consumed


@pytest.mark.parametrize("kind", ["image/png", "IMAGE/JPEG; x=1", "application/octet-stream", ""])
def test_a_bare_body_is_one_image(kind):
    assert read(kind, b"ab", b"c")[0] == [Upload(None, b"abc")]


@settings(deadline=None)  # the machine's load is not what is tested
@given(st.data())
def test_a_form_reads_the_same_however_it_is_cut(data):
    contents = data.draw(st.lists(st.binary(max_size=60).filter(lambda content: b"--edge" not in content), min_size=1))
    body = b"".join(PART % (b"%d.png" % number, content) for number, content in enumerate(contents)) + END
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    uploads, _ = read(FORM, *chunks, limit=len(contents))
    assert uploads == [Upload(f"{number}.png", content) for number, content in enumerate(contents)]


def test_names_keep_their_letters():
    assert read(FORM, PART % ("ünï/日本.png".encode(), b"x"), END)[0][0].name == "ünï/日本.png"


STAR = b"filename*=utf-8''%C3%BC%20%E6%97%A5.png"
WORDS = b'filename="=?utf-8?B?w7wucG5n?="'


def named(parameters: bytes) -> bytes:
    return b'--edge\r\nContent-Disposition: form-data; name="image"; ' + parameters + b"\r\n\r\nx\r\n" + END


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        (STAR, "ü 日.png"),
        (WORDS + b"; " + STAR, "ü 日.png"),
        (STAR + b"; " + WORDS, "ü 日.png"),
        (b'filename="plain.png";' + STAR, "ü 日.png"),
        (b"FileName*=UTF-8'en'a%2Fb.png", "a/b.png"),
        (b"filename*=\"utf-8''%C3%BC.png\"", "ü.png"),
        (WORDS, "ü.png"),
        (b'filename="=?utf-8?Q?=C3=BC?= =?utf-8?Q?_b=2Epng?="', "ü b.png"),
        (b"filename=token.png", "token.png"),
        (b'filename = "spaced.png" ', "spaced.png"),
        (b'FILENAME="upper.png"', "upper.png"),
        (b"filename=\"a;b='c' (1).png\"; x=y", "a;b='c' (1).png"),
        (rb'filename="say \"hi\" \\ there.png"', 'say "hi" \\ there.png'),
        (rb'filename="C:\photos\summer.png"', "summer.png"),
        (rb'filename="\\\\host\\photos\\summer.png"', "summer.png"),
        (b'filename="100%25 =?sure?=.png"', "100%25 =?sure?=.png"),
        (b'x="; filename=wrong.png"; filename="right.png"', "right.png"),
    ],
)
def test_file_names_as_clients_send_them(parameters, name):
    assert read(FORM, named(parameters))[0] == [Upload(name, b"x")]


@pytest.mark.parametrize(
    "parameters",
    [
        b"filename*=utf-8''%FF.png",
        b"filename*=utf-8''%C3",
        b"filename*=utf-8''%ZZ.png",
        b"filename*=iso-8859-1''%FC.png",
        b"filename*=klingon''a.png",
        b"filename*=a.png",
        b'filename="\xfc.png"',
        b'filename="=?utf-8?B?/w==?="',
        b'filename="=?iso-8859-1?Q?=FC?="',
        b"filename=\"ok.png\"; filename*=utf-8''%FF.png",
    ],
)
def test_a_file_name_that_is_no_utf8_is_refused(parameters):
    with pytest.raises(Problem, match="the name of a file is UTF-8") as failure:
        read(FORM, named(parameters))
    assert failure.value.kind == "invalid"


def test_parts_that_are_no_files_are_passed_over():
    assert read(FORM, TEXT, PART % (b"a", b"x"), END)[0] == [Upload("a", b"x")]


def test_parts_that_are_no_files_are_not_counted_as_images():
    assert read(FORM, PART % (b"a", b"x"), TEXT * FIELDS, END, limit=1)[0] == [Upload("a", b"x")]
    with pytest.raises(Problem, match="64 fields"):
        read(FORM, TEXT * (FIELDS + 1), END)


def test_a_file_without_a_name_has_none():
    assert read(FORM, PART % (b"", b"x"), END)[0] == [Upload(None, b"x")]


def test_the_part_too_many_ends_the_reading():
    chunks = [PART % (b"%d" % number, b"x") for number in range(10)]
    consumed = []

    async def stream():
        for chunk in chunks:
            consumed.append(chunk)
            yield chunk

    with pytest.raises(Problem, match="more than the 2 files") as failure:
        asyncio.run(read_images(FORM, stream(), limit=2))
    assert failure.value.kind == "too-many-images"
    assert len(consumed) == 3


@pytest.mark.parametrize(
    ("kind", "body", "problem"),
    [
        ("text/plain", b"x", "media-type"),
        ("application/x-www-form-urlencoded", b"x", "media-type"),
        ("multipart/form-data", PART % (b"a", b"x") + END, "invalid"),  # no boundary
        (FORM, b"", "invalid"),
        (FORM, b"no form at all", "invalid"),
        (FORM, PART % (b"a", b"x"), "invalid"),  # breaks off
        (FORM, TEXT + END, "invalid"),  # no file
        (FORM, b"--edge\r\n" + b"A: b\r\n" * 1000, "invalid"),
        (FORM, b"--edge\r\nA: " + b"b" * 100_000, "invalid"),
        (f"multipart/form-data; boundary={'e' * 1000}", b"x", "invalid"),
    ],
)
def test_what_is_not_understood_is_a_problem(kind, body, problem):
    with pytest.raises(Problem) as failure:
        read(kind, body)
    assert failure.value.kind == problem
