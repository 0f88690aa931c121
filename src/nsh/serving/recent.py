"""Recent codes for a drift comparison: those of a folder, or counts of a running service's queries."""

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from nsh.core.manifest import read_codes
from nsh.core.reference import ReferenceProfile, Tally
from nsh.errors import CodesError, DataError
from nsh.serving.encoder import Encoder
from nsh.system.loopback import is_loopback

_SECONDS = 10.0


def require_reference(encoder: Encoder) -> ReferenceProfile:
    """The reference profile of an encoder.

    Raises:
        CodesError: it has none.
    """
    if encoder.reference is None:
        raise CodesError(
            f"{encoder.path} has no reference profile: monitoring is not available; export the encoder again, from a "
            "split with 50 queries or more"
        )
    return encoder.reference


def read_recent_codes(folder: Path, encoder: Encoder) -> NDArray[np.uint8]:
    """The codes of a folder that `nsh encode` made: uint8 [n, ceil(bits / 8)].

    Raises:
        CodesError: the folder is incomplete or damaged, or its codes are another encoder's.
    """
    found = read_codes(folder)
    _require_same(found.header["encoder_identity"], encoder, source=str(folder))
    return found.codes


def ask_service(url: str, encoder: Encoder) -> Tally:
    """Counts of the last full window of a running service's queries.

    Args:
        url: of the service.
        encoder: the one that it serves.

    Raises:
        DataError: the service does not answer, its file has no reference profile, or no window is full yet.
        CodesError: it serves another encoder.
    """
    bits = encoder.contract.bits
    try:
        _require_same(json.loads(_get(url, "/v1/info"))["encoder_identity"], encoder, source=url)
        families = {family.name: family.samples for family in text_string_to_metric_families(_get(url, "/metrics"))}
        (known,), (waiting,) = (families[f"nsh_drift_{name}"] for name in ("reference_images", "waiting_images"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{url} is no service with drift metrics: name the address of a running `nsh serve`") from error
    if not known.value:
        raise DataError(
            f"{url} serves a copy of this encoder without a reference profile: start it with {encoder.path}"
        )
    ones, nearest = np.zeros(bits, np.int64), np.zeros(bits + 1, np.int64)
    for counts, name, label in ((ones, "bit_ones", "bit"), (nearest, "nearest_images", "distance")):
        for sample in families.get(f"nsh_drift_{name}", ()):
            counts[int(sample.labels[label])] = sample.value
    if not nearest.any():
        raise DataError(f"{url} has {waiting.value:.0f} queries in its first window, which is not full: wait for more")
    return Tally(ones, nearest)


def _require_same(identity: str, encoder: Encoder, *, source: str) -> None:
    if identity != encoder.identity:
        raise CodesError(
            f"{source} has codes of the encoder {identity[:12]}, found the encoder {encoder.identity[:12]}: name the "
            "encoder that made them"
        )


def _get(url: str, path: str) -> str:
    try:
        proxies = urllib.request.ProxyHandler({} if is_loopback(urlsplit(url).hostname) else None)
        opener = urllib.request.build_opener(proxies)
        with opener.open(url.rstrip("/") + path, timeout=_SECONDS) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise DataError(f"{url} does not answer {path} ({error}): name the address of a running `nsh serve`") from error
    return content.decode()
