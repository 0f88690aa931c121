"""Folders of codes as arguments of commands."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nsh.core.codes import check_length, first_bits
from nsh.core.manifest import Codes, read_codes
from nsh.errors import CodesError
from nsh.serving.index.engine import Engine


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


def codes_for(index: Engine, sources: Sequence[Codes]) -> NDArray[np.uint8]:
    """The codes of all sources, uint8 [n, bytes]: of the index's encoder cut to the index's length, others as they are.

    Raises:
        CodesError: codes of this encoder cannot be cut to that length.
    """
    header, codes = sources[0].header, np.concatenate([source.codes for source in sources])
    if index.encoder_identity != header["encoder_identity"] or index.bits == header["bits"]:
        return codes
    check_length(index.bits, [*header["nested"], header["bits"]])
    return first_bits(codes, bits=index.bits)
