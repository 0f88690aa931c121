"""The index: where codes are kept and searched. What is inside is in `index.py`."""

from nsh.serving.index.index import Index
from nsh.serving.index.snapshot import Filter, Hit, Snapshot

__all__ = ["Filter", "Hit", "Index", "Snapshot"]
