"""Listens until it is told to stop, then finishes what is in flight."""

import math
import signal
from functools import partial

import uvicorn

from nsh.serving.service.app import create_app
from nsh.serving.service.connections import Connection, ConnectionLimits
from nsh.serving.service.limits import LINGER_SECONDS
from nsh.serving.service.logs import log, start_logs
from nsh.serving.service.service import Service
from nsh.serving.service.settings import Settings


def run(settings: Settings, *, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C; then take no more connections, finish what is in flight, and return.

    Raises:
        NshError: encoder or index cannot be opened, or do not belong together.
    """
    service = Service(settings)
    start_logs()
    for stop in (signal.SIGTERM, signal.SIGINT):  # uvicorn answers them while it runs and raises them again after
        signal.signal(stop, signal.SIG_IGN)
    config = configure(service, host=host, port=port)
    log("start", address=f"http://{host}:{port}", items=len(service.library), encoder=service.encoder.sha256[:12])
    uvicorn.Server(config).run()
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
