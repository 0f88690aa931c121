"""Where the service of this machine or container listens, and whether it answers. Knows nothing of what it serves.

A health check is another process than the service, and knows its environment but not its options. So the service writes
where it listens into a file, if it is given one.
"""

import http.client
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

PATH = "/healthz"
_SECONDS = 4.0  # below the timeout of the image's health check


def url_of(host: str, port: int) -> str:
    """The address at which this machine reaches a service that listens at `host` and `port`.

    One that listens everywhere (0.0.0.0, ::) is asked on the loopback interface.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name
        return f"http://{host}:{port}"
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://{address}:{port}" if address.version == 4 else f"http://[{address}]:{port}"


def read_address(file: Path) -> str | None:
    """What a service wrote into its address file; None where nothing is, as before it listens."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def find_fault(url: str) -> str | None:
    """What is wrong with the service at `url`, None if it answers `/healthz`. No proxy is asked, whatever is set."""
    place = urlsplit(url)
    # The service knows itself as localhost, whichever of its addresses it is asked at.
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
    try:
        connection.request("GET", PATH, headers={"Host": "localhost"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{url} does not answer: {error or type(error).__name__}"
    finally:
        connection.close()
    return None if status == http.client.OK else f"{url}{PATH} answers {status}"
