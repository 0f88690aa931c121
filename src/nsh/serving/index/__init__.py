"""The index: stores and searches codes. `index.py` describes its files."""

from nsh.serving.index.engine import Engine, Filter, Hit, Reader, ScoredHit
from nsh.serving.index.index import Index
from nsh.serving.index.snapshot import Snapshot

__all__ = ["Engine", "Filter", "Hit", "Index", "Reader", "ScoredHit", "Snapshot"]
