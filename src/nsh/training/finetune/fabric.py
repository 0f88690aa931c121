"""A rank's device and its connection to the other ranks, by Lightning's Fabric. Knows no network and no loss."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import distributed

from nsh.errors import TrainingError
from nsh.training.finetune.ranks import count_here, count_ranks, this_rank

_BROKEN = re.compile(r"gloo|NCCL|Connection (closed|reset|refused)|Broken pipe", re.IGNORECASE)


def open_fabric(device: str) -> Fabric:
    """Open this rank's device, and its connection to the other ranks if there are any."""
    kind, _, index = device.partition(":")
    ranks = count_ranks()
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # without its greetings
    if ranks == 1:  # one process, also inside a cluster's job
        fabric = Fabric(accelerator=kind, devices=[int(index)] if index else 1, plugins=[LightningEnvironment()])
    else:
        here = count_here(ranks)
        strategy = DDPStrategy(static_graph=True, forward_sync_buffers=False)  # statistics are equal on all
        fabric = Fabric(
            accelerator=kind,
            devices=here,
            num_nodes=ranks // here,
            strategy=strategy,
            plugins=[TorchElasticEnvironment()],
        )
    fabric.launch()
    return fabric


@contextmanager
def naming_lost_ranks() -> Iterator[None]:
    """Turn torch's error about a broken connection into the one sentence that another rank has ended.

    Raises:
        TrainingError: another rank has ended.
    """
    try:
        yield
    except RuntimeError as error:
        if not (distributed.is_initialized() and _BROKEN.search(str(error))):
            raise
        raise TrainingError(
            f"rank {this_rank()} lost the others, one of which has ended: see what it said, then run the same command "
            "again to go on"
        ) from error
