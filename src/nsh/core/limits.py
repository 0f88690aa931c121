"""The default limit on pixels. Imports nothing, so that `--help` is fast."""

MAX_PIXELS = 250_000_000
"""Default limit on width x height of an image: phones make 200 million pixels, 0.8 GB once decoded."""
