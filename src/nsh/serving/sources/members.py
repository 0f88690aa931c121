"""What an archive holds, whatever its format."""

from typing import NamedTuple


class Member(NamedTuple):
    """An image in an archive."""

    id: str
    fault: str  # why it cannot be read; "" if it can
    place: tuple[int, int]  # in a TAR archive first byte and size; in a Parquet file row group and row in it


def check_name(name: str) -> str:
    """Why a member's name is no id; "" if it is one.

    Examples:
        >>> check_name("beach/1.jpg"), check_name("../1.jpg"), check_name("/1.jpg")
        ('', 'its name leads out of the archive', 'its name leads out of the archive')
    """
    leads_out = name.startswith("/") or ".." in name.split("/")
    return "its name leads out of the archive" if leads_out else "" if name else "it has no name"
