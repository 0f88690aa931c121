"""Hosts that are this machine. A proxy is for the others: it would look for the service on its own machine."""

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Whether the host name or address of a URL (`urlsplit(url).hostname`) means this machine, whatever its network."""
    if host is None:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified  # to call 0.0.0.0 is to call this machine
