"""The address of the service on this machine or in this container, and whether it answers. Knows no route.

A health check runs in another process, which knows the service's environment but not its options. So the service can
write its address to a file.
"""

import http.client
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

PATH = "/healthz"
_SECONDS = 4.0  # below the timeout of the image's health check


def url_of(host: str, port: int) -> str:
    """The URL at which this machine reaches a service that listens at `host` and `port`.

    The loopback interface is used for a service that listens everywhere (0.0.0.0, ::).
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name
        return f"http://{host}:{port}"
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://{address}:{port}" if address.version == 4 else f"http://[{address}]:{port}"


def read_address(file: Path) -> str | None:
    """The URL that a service wrote into its address file; None if there is none, as before it listens."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def find_fault(url: str) -> str | None:
    """What is wrong with the service at `url`; None if it answers `/healthz`. Proxy settings are ignored."""
    place = urlsplit(url)
    # The service always allows the host name localhost.
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
    try:
        connection.request("GET", PATH, headers={"Host": "localhost"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{url} does not answer: {error or type(error).__name__}"
    finally:
        connection.close()
    return None if status == http.client.OK else f"{url}{PATH} answers {status}"
