"""A digest of the code that made an encoder. Knows nothing of what the code does."""

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

_MADE_IN = re.compile(r"nsh\.(backbones|core|export|methods|objectives|project|serving|system|training)\b")


def source_sha256(modules: Mapping[str, ModuleType] = sys.modules) -> str:
    """Digest the source of every loaded module of the rooms that make encoders, in the order of their names.

    Loaded, not present: another method's file, never imported, leaves the digest as it is. In the export stage these
    are the files that DVC reruns the stage for; the code that trained shows in the head's weights.
    """
    digest = hashlib.sha256()
    for name in sorted(modules):
        file = modules[name].__file__ if _MADE_IN.match(name) else None
        if file is not None:
            digest.update(f"{name}\n{Path(file).read_text(encoding='utf-8')}\n".encode())
    return digest.hexdigest()
