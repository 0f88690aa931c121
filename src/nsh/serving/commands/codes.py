"""Folders of codes as arguments of commands."""

from collections.abc import Sequence
from pathlib import Path

from nsh.core.manifest import Codes, read_codes
from nsh.errors import CodesError


def read_codes_of_one_encoder(folders: Sequence[Path]) -> list[Codes]:
    """Read folders that `nsh encode` made.

    Raises:
        CodesError: one is incomplete or damaged, or they are of several encoders.
    """
    sources = [read_codes(folder) for folder in folders]
    digests = {source.header["encoder_identity"]: folder for source, folder in zip(sources, folders, strict=True)}
    if len(digests) > 1:
        found = ", ".join(f"{folder}: {digest[:12]}" for digest, folder in digests.items())
        raise CodesError(f"found codes of several encoders ({found}): an index holds those of one")
    return sources
