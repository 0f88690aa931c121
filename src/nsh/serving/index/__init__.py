"""The index: stores and searches codes. `index.py` describes its files."""

from nsh.serving.index.index import Index
from nsh.serving.index.snapshot import Filter, Hit, ScoredHit, Snapshot

__all__ = ["Filter", "Hit", "Index", "ScoredHit", "Snapshot"]
