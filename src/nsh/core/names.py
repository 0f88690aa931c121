"""Names of files in different spellings, and when two spellings mean one file. Opens no file.

macOS writes accents as separate characters (NFD), other systems as part of the letter (NFC); Windows writes backslashes
and carriage returns; shells write `./`. An equal name always takes precedence, because both spellings may exist.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from nsh.system.files import expand_home

_UTF_16, _UTF_8_MARK = (b"\xff\xfe", b"\xfe\xff"), b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Matches:
    """Names matched with ids."""

    ids: dict[str, str]  # by name
    unmatched: list[str]  # names that match none of the ids, in their order


def plain(name: str) -> str:
    r"""The common form of all spellings of a path: NFC, `/`, no `./`, no white space at its ends.

    Examples:
        >>> plain(r".\beach\1.jpg"), plain("./beach/1.jpg ")
        ('beach/1.jpg', 'beach/1.jpg')
    """
    return posixpath.normpath(normalize("NFC", name.strip()).replace("\\", "/"))


def spellings(name: str) -> Iterator[str]:
    """The name as it is written, then its other spellings.

    Examples:
        >>> [len(name) for name in spellings("café.jpg")]  # the last has the accent as a character of its own
        [8, 8, 8, 9]
    """
    yield name
    yield name.strip()
    for form in ("NFC", "NFD"):
        yield normalize(form, plain(name))


def match(names: Iterable[str], ids: Sequence[str]) -> Matches:
    """Find the id of each name: the equal id, else the only id with the same plain form.

    Examples:
        >>> match(["./a.jpg", "c.jpg"], ids=["a.jpg", "b.jpg"])
        Matches(ids={'./a.jpg': 'a.jpg'}, unmatched=['c.jpg'])
    """
    exact, by_form = set(ids), dict[str, list[str]]()
    for one in ids:
        by_form.setdefault(plain(one), []).append(one)
    found: dict[str, str] = {}
    unmatched: list[str] = []
    for name in names:
        same = [name] if name in exact else by_form.get(plain(name), [])
        if len(same) == 1:
            found[name] = same[0]
        else:
            unmatched.append(name)
    return Matches(found, unmatched)


def describe_matches(ids: int, without: Sequence[str], unmatched: Sequence[str], *, of: str, have: str) -> str:
    """How many ids a table has something for, and how many of its lines name none, with examples of both.

    Args:
        ids: how many there are.
        without: those of them that no line names.
        unmatched: names in the table that are none of them.
        of: what an id stands for.
        have: what a line gives it.

    Examples:
        >>> describe_matches(3, ["c.jpg"], ["d.jpg"], of="image", have="a label")
        "2 of 3 images have a label (not 'c.jpg'); 1 lines name no image ('d.jpg')"
    """
    text = f"{ids - len(without)} of {ids} {of}s have {have}"
    if without:
        text += f" (not {listed(without)})"
    if unmatched:
        text += f"; {len(unmatched)} lines name no {of} ({listed(unmatched)})"
    return text


def read_list(content: bytes) -> list[str]:
    r"""The names in a list, one a line, or each followed by a zero byte as from `find -print0`, without empty ones.

    Windows line ends, a byte order mark, and UTF-16, as PowerShell writes it, are allowed.

    Examples:
        >>> read_list(b"a.jpg\r\nb.jpg\r\n"), read_list(b"a.jpg\0b.jpg\0")
        (['a.jpg', 'b.jpg'], ['a.jpg', 'b.jpg'])
    """
    if content.startswith(_UTF_16):
        content = content.decode("utf-16", errors="surrogatepass").encode("utf-8", errors="surrogatepass")
    content = content.removeprefix(_UTF_8_MARK)
    if b"\0" in content:
        names = content.split(b"\0")
    else:
        names = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    return [os.fsdecode(name) for name in names if name]


def find_path(name: str) -> str:
    """The absolute path of the file that a name in a list means; of a missing file, the name as it is written.

    `~` at its beginning is the user's folder, which no shell expands in a list.

    Examples:
        >>> find_path("/photos/./none-of-this-name.jpg")
        '/photos/none-of-this-name.jpg'
    """
    written = (*spellings(name), expand_home(name))
    paths = [os.path.abspath(spelling) for spelling in written]  # noqa: PTH100 - links stay as they are
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def listed(names: Sequence[str]) -> str:
    """The first five names, and the number of further names.

    Examples:
        >>> listed(["1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg", "7.jpg"])
        "'1.jpg', '2.jpg', '3.jpg', '4.jpg', '5.jpg' and 2 more"
    """
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
