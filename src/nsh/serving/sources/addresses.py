"""Addresses of stores, such as s3://bucket/photos: what an id below one is, and what may be shown of one.

Knows no store, and opens nothing.
"""

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from urllib.request import url2pathname

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SECRET = re.compile(
    r"x-(amz|goog|oss|cos|ms)-.*|.*(signature|token|secret|password|credential|api[-_]?key).*|sig|auth|policy|expires"
    r"|awsaccesskeyid|googleaccessid|key-pair-id|s[eiprtv]|spr|sk[evt]|skoid|sktid",
    re.IGNORECASE,
)
"""Names of parameters that sign a request to S3, Google, Azure, Alibaba, Tencent or CloudFront, or that may be keys."""


def is_address(text: str) -> bool:
    """Whether a text is an address, and not a path.

    Examples:
        >>> is_address("s3://bucket/a.jpg"), is_address("photos/a.jpg")
        (True, False)
    """
    return _ADDRESS.match(text) is not None


def local_path(text: str) -> str:
    """The path that a "file://" address means; any other text as it is.

    Examples:
        >>> local_path("file:///photos/a%20b.jpg"), local_path("photos/a.jpg"), local_path("s3://bucket/a.jpg")
        ('/photos/a b.jpg', 'photos/a.jpg', 's3://bucket/a.jpg')
    """
    return url2pathname(text[len("file://") :]) if text.lower().startswith("file:///") else text


def protocol_of(address: str) -> str:
    """The protocol of an address, in lower case.

    Examples:
        >>> protocol_of("S3://bucket/a.jpg")
        's3'
    """
    return address.partition("://")[0].lower()


def without_secrets(address: str) -> str:
    """The address without user, password, and the parameters that sign it: what manifests and messages show.

    Examples:
        >>> without_secrets("https://me:mine@host/a.jpg?width=9&X-Amz-Signature=1f&sig=2e#top")
        'https://host/a.jpg?width=9'
        >>> without_secrets("s3://bucket/a@b.jpg")
        's3://bucket/a@b.jpg'
    """
    protocol, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    shown = f"{protocol.lower()}://{host.rpartition('@')[2]}{slash}{path}"
    if not _is_web(address):
        return shown
    shown, _, query = shown.partition("#")[0].partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if not _SECRET.fullmatch(name)]
    return shown + ("?" + urlencode(kept) if kept else "")


def id_below(root: str, address: str) -> str | None:
    """The path of an address below the root, or the whole address if the root is ""; None if it is not below.

    Examples:
        >>> id_below("https://host/photos/", "https://host/photos/a%20b/1.jpg?sig=2e")
        'a b/1.jpg'
        >>> id_below("s3://bucket", "s3://other/1.jpg") is None
        True
        >>> id_below("", "https://host/a%20b.jpg")
        'https://host/a%20b.jpg'
    """
    shown = without_secrets(address)
    if not root:
        return shown
    prefix = without_secrets(root).rstrip("/") + "/"
    if not shown.startswith(prefix) or shown == prefix:
        return None
    path = shown[len(prefix) :]
    return unquote(path) if _is_web(address) else path


def address_below(root: str, image_id: str) -> str:
    """The address of an id below the root.

    Examples:
        >>> address_below("https://host/photos", "a b/1.jpg"), address_below("s3://bucket", "a b/1.jpg")
        ('https://host/photos/a%20b/1.jpg', 's3://bucket/a b/1.jpg')
        >>> address_below("", "https://host/a%20b.jpg")
        'https://host/a%20b.jpg'
    """
    if not root:
        return image_id
    return root.rstrip("/") + "/" + (quote(image_id) if _is_web(root) else image_id)


def host_of(address: str) -> str | None:
    """The host of a web address, "" if it has none; None for other stores.

    Examples:
        >>> host_of("http://127.0.0.1:8000/a.jpg"), host_of("s3://bucket/a.jpg")
        ('127.0.0.1', None)
    """
    if not _is_web(address):
        return None
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _is_web(address: str) -> bool:
    return protocol_of(address) in ("http", "https")
