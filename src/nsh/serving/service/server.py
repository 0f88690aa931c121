"""Listens until it is told to stop, then finishes what is in flight."""

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
    """Writes into the address file where it listens, as soon as it does."""

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
            except OSError as error:  # the service is none the worse, and `nsh health` knows the usual port
                log("address file not written", level=30, file=str(self._address_file), reason=str(error))
        log("listening", address=url)


def run(settings: Settings, *, host: str, port: int, address_file: Path | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; then take no more connections, finish what is in flight, and return.

    Args:
        settings: what is served, and the limits.
        host: address to listen at.
        port: 0: any that is free.
        address_file: gets the URL at which this machine reaches the service, once it listens.

    Raises:
        NshError: encoder or index cannot be opened, or do not belong together.
    """
    service = Service(settings)
    _check_address(host, port)
    start_logs()
    for stop in (signal.SIGTERM, signal.SIGINT):  # uvicorn answers them while it runs and raises them again after
        signal.signal(stop, signal.SIG_IGN)
    config = configure(service, host=host, port=port)
    log("start", address=f"http://{host}:{port}", items=len(service.library), encoder=service.encoder.sha256[:12])
    _Server(config, address_file).run()
    log("stop")


def configure(service: Service, *, host: str, port: int) -> uvicorn.Config:
    """How uvicorn serves `service`: HTTP/1.1 alone, within the limits on connections, by no header of a proxy."""
    settings = service.settings
    limits = ConnectionLimits(queue=settings.queue, timeout=settings.timeout, metrics=service.metrics)
    return uvicorn.Config(
        create_app(service, host=host),
        host=host,
        port=port,
        http=partial(Connection, limits=limits),  # type: ignore[arg-type]  # uvicorn calls it and no more
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=limits.backlog,
        timeout_keep_alive=settings.keep_alive,
        timeout_graceful_shutdown=math.ceil(settings.timeout + LINGER_SECONDS),
    )


def _check_address(host: str, port: int) -> None:
    """Listen for a moment where the server is going to: it would say why it cannot only after it has begun.

    Raises:
        ConfigError: there is no such address here, it is in use, or the port is for others.
    """
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server: what has ended may linger
                probe.bind(address)
                probe.listen()
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be one
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"cannot listen at {host}:{port} ({reason}): choose another --port, from 1024 on and not in use, or "
            "another --host, an address of this machine"
        ) from error
