"""A port that nobody else gets: one that is picked, given back and used later may be another program's by then."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def keep_port() -> Iterator[int]:
    """A port of this machine at which nothing listens.

    The system gives it to nobody who asks for any free port. A program that names it may listen there.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
