"""Makes one index hold the items of another, with codes of its own encoder. Knows no folder of a deployment."""

from collections.abc import Callable

import numpy as np

from nsh.serving.deployment.items import Encoded
from nsh.serving.index import Index
from nsh.serving.index.changes import Change, Changes

Encode = Callable[[list[str]], Encoded]


def catch_up(target: Index, changes: Changes, *, encode: Encode) -> dict[str, str]:
    """Do to `target` what was done to another index since its `changes` were read last.

    Ids and metadata become those of the other index, and new items come in its order. An item that is new there, or
    has another code, is encoded again.

    Returns:
        For each such item that cannot be encoded, why not; `target` does not hold it.

    Raises:
        IndexUnusable: an index cannot be read or changed.
    """
    faults, changed = dict[str, str](), False
    for change in changes:
        faults |= _apply(change, target, encode)
        changed = True
    if changed:
        target.remove(target.ids_beyond(changes.index))
    return faults


def _apply(change: Change, target: Index, encode: Encode) -> dict[str, str]:
    ids, described = change.items.ids, dict(zip(change.items.ids, change.items.metadata, strict=True))
    known = target.describe(ids)
    stale = [name for name, altered in zip(ids, change.altered.tolist(), strict=True) if altered or name not in known]
    codes, faults = encode(stale)
    if lost := [name for name in faults if name in known]:
        target.remove(lost)
    redescribed = [name for name in ids if name in known and name not in faults and known[name] != described[name]]
    codes = codes | {name: target.code_of(name) for name in redescribed if name not in codes}
    put = [name for name in ids if name in codes]
    if put:
        target.add(
            put,
            np.stack([codes[name] for name in put]),
            metadata=[described[name] for name in put],
            encoder_identity=target.encoder_identity,
        )
    return faults
