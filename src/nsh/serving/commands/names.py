"""Ids as a person reads them. Knows nothing of what they name."""

import json


def one_line(name: str) -> str:
    """The name as it is, or quoted if it holds something that cannot be printed: a newline would look like two."""
    return name if name.isprintable() else json.dumps(name)
