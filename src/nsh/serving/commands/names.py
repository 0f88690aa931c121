"""Ids in printed output."""

import json


def one_line(name: str) -> str:
    """The name, quoted as JSON if it is not printable: a newline would look like two names."""
    return name if name.isprintable() else json.dumps(name)
