"""Limits that commands show and the rooms below hold to. Imports nothing, so that `--help` is there at once."""

MAX_PIXELS = 250_000_000
"""Width x height an image may have unless a caller says otherwise: phones make 200 million, 0.8 GB once decoded."""
