"""The file models/<method>-<bits>/backbone.pt: the tensors of a backbone that training changed. Knows no method.

The file is a state dict of the changed tensors. It is empty if the backbone was frozen: then the head is joined with
the backbone graph that made the embeddings (docs/decisions/0002).
"""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from nsh.errors import ExportError

State = Mapping[str, Tensor]


def watch_changes(network: nn.Module | None) -> Callable[[], bytes]:
    """Copy the network's state; the returned callable gives the changes since, as the bytes of a file.

    Args:
        network: None if no network is trained.
    """
    before = {} if network is None else copy_state(network)
    return lambda: to_bytes({} if network is None else find_changes(network, before))


def copy_state(network: nn.Module) -> State:
    """A copy of the network's tensors."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def find_changes(network: nn.Module, before: State) -> State:
    """The network's tensors that differ from `before`."""
    return {name: value for name, value in network.state_dict().items() if not torch.equal(value, before[name])}


def to_bytes(changes: State) -> bytes:
    """The bytes of the file; equal changes give equal bytes."""
    buffer = io.BytesIO()
    torch.save(dict(changes), buffer)
    return buffer.getvalue()


def apply_changes(path: Path, network: nn.Module) -> bool:
    """Load the changes at `path` into the network; return whether there are any.

    Raises:
        ExportError: no such file, no state dict, or one of another network.
    """
    if not path.is_file():
        raise ExportError(f"{path} is not here: train again, `dvc repro -f train@{path.parent.name}`")
    try:
        changes: State = torch.load(path, map_location="cpu", weights_only=True)
        unknown = network.load_state_dict(changes, strict=False).unexpected_keys
    except Exception as error:  # unpickling garbage raises nearly every built-in exception
        raise ExportError(f"{path} holds no weights of this backbone ({error}): train again") from error
    if unknown:
        raise ExportError(f"{path} holds weights of another backbone, e.g. {unknown[0]}: train again")
    return bool(changes)
