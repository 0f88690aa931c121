"""Runs the service until SIGTERM or Ctrl-C, then finishes the requests in progress."""

import math
import signal
import socket
from functools import partial
from pathlib import Path

import uvicorn

from nsh.errors import ConfigError
from nsh.serving.service.address import url_of
from nsh.serving.service.app import create_app
from nsh.serving.service.connections import Connection, ConnectionLimits
from nsh.serving.service.logs import log, start_logs
from nsh.serving.service.request_limits import LINGER_SECONDS
from nsh.serving.service.service import Service
from nsh.serving.service.settings import Settings
from nsh.system.files import write_text


class _Server(uvicorn.Server):
    """Writes its URL to the address file once it listens."""

    def __init__(self, config: uvicorn.Config, address_file: Path | None) -> None:
        super().__init__(config)
        self._address_file = address_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        host, port, *_ = self.servers[0].sockets[0].getsockname()
        url = url_of(host, port)
        if self._address_file is not None:
            try:
                write_text(self._address_file, f"{url}\n")
            except OSError as error:  # the service still works, and `nsh health` tries the default port
                log("address file not written", level=30, file=str(self._address_file), reason=str(error))
        log("listening", address=url)


def run(settings: Settings, *, host: str, port: int, address_file: Path | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; then accept no more connections, finish the requests in progress, and return.

    Args:
        settings: the service's settings.
        host: address to listen at.
        port: port to listen at; 0: any free port.
        address_file: gets the URL at which this machine reaches the service, once it listens.

    Raises:
        NshError: encoder or index cannot be opened, or do not belong together.
    """
    service = Service(settings)
    check_address(host, port)
    start_logs()
    for stop in (signal.SIGTERM, signal.SIGINT):  # uvicorn handles them while it runs and raises them again after
        signal.signal(stop, signal.SIG_IGN)
    config = configure(service, host=host, port=port)
    release = service.release
    log("start", address=f"http://{host}:{port}", items=len(release.library), encoder=release.encoder.identity[:12])
    _Server(config, address_file).run()
    log("stop")


def configure(service: Service, *, host: str, port: int) -> uvicorn.Config:
    """Uvicorn's configuration: HTTP/1.1 only, limits on connections, no trust in headers of a proxy."""
    settings = service.settings
    limits = ConnectionLimits(queue=settings.queue, timeout=settings.timeout, metrics=service.metrics)
    return uvicorn.Config(
        create_app(service, host=host),
        host=host,
        port=port,
        http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=limits.backlog,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=math.ceil(settings.timeout + LINGER_SECONDS),
    )


def check_address(host: str, port: int) -> None:
    """Listen for a moment at the server's address, because uvicorn reports an error only after its start.

    Raises:
        ConfigError: the address is not this machine's, it is in use, or the port is reserved.
    """
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does
                probe.bind(address)
                probe.listen()
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"cannot listen at {host}:{port} ({reason}): choose another --port, from 1024 on and not in use, or "
            "another --host, an address of this machine"
        ) from error
