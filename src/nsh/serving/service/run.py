"""Listens until it is told to stop, then finishes what is in flight."""

import signal

import uvicorn

from nsh.serving.service.app import create_app
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
    config = uvicorn.Config(
        create_app(service),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
    )
    log("start", address=f"http://{host}:{port}", items=len(service.library), encoder=service.encoder.sha256[:12])
    uvicorn.Server(config).run()
    log("stop")
