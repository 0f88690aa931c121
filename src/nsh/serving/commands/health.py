"""`nsh health`: whether the service on this machine answers."""

from pathlib import Path
from typing import Annotated

import typer

UNHEALTHY = 1  # container engines read 1 as unhealthy; they reserve 2

Host = Annotated[str, typer.Option(envvar="NSH_HOST", help="Address to listen at; 0.0.0.0 for all.")]
Port = Annotated[int, typer.Option(envvar="NSH_PORT", min=0, max=65535)]
AddressFile = Annotated[
    Path | None,
    typer.Option(envvar="NSH_ADDRESS_FILE", help="File to which the service writes its address, for `nsh health`."),
]
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000


def health(host: Host = DEFAULT_HOST, port: Port = DEFAULT_PORT, address_file: AddressFile = None) -> None:
    """Ask the service on this machine whether it answers; exit code 1 if not.

    The request goes to the address in the address file, else to host and port, and never through a proxy.
    """
    from nsh.serving.service.address import find_fault, read_address, url_of

    url = (address_file and read_address(address_file)) or url_of(host, port)
    if fault := find_fault(url):
        typer.echo(fault, err=True)
        raise typer.Exit(UNHEALTHY)
    typer.echo(f"{url} answers")
