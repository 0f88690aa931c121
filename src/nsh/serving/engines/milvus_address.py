"""The URL of a Milvus collection. Needs no Milvus.

milvus://10.0.0.1:19530/photos       the collection `photos` of a server
milvus:///data/photos.db/photos      the collection `photos` in a file, by Milvus Lite in this process
"""

import re
from pathlib import Path
from typing import NamedTuple

from nsh.errors import ConfigError

SCHEME = "milvus:"
_SERVER = re.compile(r"milvus://([A-Za-z0-9._-]+):(\d{1,5})/([A-Za-z_][A-Za-z0-9_]{0,200})")
_LITE = re.compile(r"milvus://(/(?:.*/)?)([A-Za-z0-9._-]{1,36})/([A-Za-z_][A-Za-z0-9_]{0,200})")


class Address(NamedTuple):
    """Where a collection is."""

    url: str  # as it was given
    uri: str  # as pymilvus takes it: http://HOST:PORT, or the path of a file
    collection: str

    @property
    def file(self) -> Path | None:
        """The file of Milvus Lite; None: a server."""
        return Path(self.uri) if self.uri.startswith("/") else None


def parse(text: str) -> Address | None:
    """The address that a text means; None if it is no URL of Milvus, but the path of a folder.

    Raises:
        ConfigError: it begins as one, and names no collection.

    Examples:
        >>> parse("milvus://10.0.0.1:19530/photos").uri, parse("index")
        ('http://10.0.0.1:19530', None)
    """
    if not text.startswith(SCHEME):
        return None
    if (server := _SERVER.fullmatch(text)) and 0 < int(server[2]) < 65_536:
        return Address(text, f"http://{server[1]}:{server[2]}", server[3])
    if lite := _LITE.fullmatch(text):
        return Address(text, lite[1] + lite[2], lite[3])
    raise ConfigError(
        f"found the address {text!r}: allowed are milvus://HOST:PORT/COLLECTION and, for Milvus Lite, "
        "milvus:///FOLDER/FILE.db/COLLECTION; a collection's name has letters, digits and _, and a file's name at most "
        "36 letters, digits, . _ and -"
    )
