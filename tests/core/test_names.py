"""Two spellings of one name, and lists of names."""

import pytest

from nsh.core.names import find_path, listed, match, plain, read_list, spellings

COMPOSED, DECOMPOSED = "m\u00fcller.png", "mu\u0308ller.png"


@pytest.mark.parametrize("name", [COMPOSED, DECOMPOSED, f"./{DECOMPOSED}", f" {COMPOSED}\r", f".//{COMPOSED}"])
def test_spellings_of_a_name_have_one_plain_form(name: str) -> None:
    assert plain(name) == COMPOSED
    assert {COMPOSED, DECOMPOSED} <= set(spellings(name))


def test_matches_are_exact_before_they_are_like() -> None:
    ids = [COMPOSED, DECOMPOSED, "a/b.png", "a\\b.png", "c/d.png"]
    names = [DECOMPOSED, COMPOSED, "a\\b.png", "./c\\d.png", f"./{COMPOSED}", "e.png"]
    found = match(names, ids)
    assert found.ids == {DECOMPOSED: DECOMPOSED, COMPOSED: COMPOSED, "a\\b.png": "a\\b.png", "./c\\d.png": "c/d.png"}
    assert found.unmatched == [f"./{COMPOSED}", "e.png"]  # the first is like two


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\xef\xbb\xbfa\r\n\r\nb\r\n", ["a", "b"]),
        ("a\r\nü\r\n".encode("utf-16"), ["a", "ü"]),
        (b"a\n b\r\0c\0", ["a\n b\r", "c"]),
        ("a\u2028b\n".encode(), ["a\u2028b"]),
        (b"\xff.jpg\n", ["\udcff.jpg"]),
        (b"", []),
    ],
)
def test_lists_as_they_are_found(content: bytes, names: list[str]) -> None:
    assert read_list(content) == names


def test_a_path_is_the_one_that_is_there(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / DECOMPOSED).touch()
    for name in (f"a/{COMPOSED}", f"a\\{COMPOSED} ", f"./a/{DECOMPOSED}"):
        assert find_path(name) == str(tmp_path / "a" / DECOMPOSED)
    (tmp_path / "a" / COMPOSED).touch()
    assert find_path(f"a/{COMPOSED}") == str(tmp_path / "a" / COMPOSED)
    assert find_path("gone.png") == str(tmp_path / "gone.png")


def test_a_path_may_begin_at_home(tmp_path, monkeypatch) -> None:
    """No shell has seen the names in a list; a folder that is called ~ takes precedence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "a.png").touch()
    assert find_path("~/a.png") == str(tmp_path / "home" / "a.png")
    assert find_path("~/gone.png") == str(tmp_path / "~" / "gone.png")
    (tmp_path / "~").mkdir()
    (tmp_path / "~" / "a.png").touch()
    assert find_path("~/a.png") == str(tmp_path / "~" / "a.png")


def test_many_names_are_shown_as_some() -> None:
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed(list("abcdefg")) == "'a', 'b', 'c', 'd', 'e' and 2 more"
