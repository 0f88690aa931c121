"""Images in stores: a root, such as s3://bucket/photos, and a list of addresses."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from nsh.core.image_files import NO_IMAGE, Exclude
from nsh.errors import DataError, DownloadError, UnreadableImage
from nsh.serving.sources import Content
from nsh.serving.sources.addresses import address_below, host_of, id_below, protocol_of, without_secrets
from nsh.serving.sources.names import reason_to_skip
from nsh.serving.sources.stores import list_objects, open_store, read_object
from nsh.system.progress import Progress, no_progress
from nsh.system.threads import map_in_threads

READERS = 16
"""Objects that each thread of an encoder has asked for at a time: an answer takes longer than the decoding."""

PATIENCE = 20
"""Images of one store in a row that it does not answer before the run ends."""


@dataclass(frozen=True)
class Remote:
    """Objects below a root; if the root is "", objects of any stores, whose ids are their addresses."""

    root: str
    addresses: Mapping[str, str] = field(default_factory=dict)  # by id: those that root and id do not make
    _unanswered: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # shared by threads

    def read(self, ids: Sequence[str], *, first: int) -> Iterator[Content]:
        """The contents of objects.

        An object that the store does not give, or does not give whole in several tries, is an error of its own.

        Raises:
            DownloadError: the store at the root has answered for none of the last `PATIENCE` images.
            ConfigError: a protocol is not known, or its package is missing.
        """
        if ids and open_store(self.address(ids[0])).async_impl:
            return map_in_threads(self._read, ids, threads=READERS, ahead=READERS)
        return map(self._read, ids)

    def _read(self, image_id: str) -> Content:
        try:
            content = read_object(self.address(image_id))
        except UnreadableImage as error:
            self._unanswered.clear()
            return error
        except DownloadError as error:
            self._unanswered.append(image_id)
            if self.root and len(self._unanswered) >= PATIENCE:
                raise
            return UnreadableImage(f"cannot be read: {error.__cause__}")
        self._unanswered.clear()
        return content

    def address(self, image_id: str) -> str:
        """The address of an image, with what signs it."""
        return self.addresses.get(image_id) or address_below(self.root, image_id)


@dataclass(frozen=True)
class RemoteImages:
    """Images in stores; ids are paths below the root, or addresses if the root is "", each once."""

    ids: list[str]
    left_out: Counter[str]
    source: Remote

    def any_below(self, folder: Path) -> bool:
        """No image is a file of this machine."""
        return False


def name_addresses(addresses: Iterable[str], *, root: str, exclude: Exclude) -> RemoteImages:
    """The images at these addresses, sorted by id.

    Raises:
        DataError: an address is not below the root.
        ConfigError: as `Remote.read`.
    """
    left_out, known = Counter[str](), dict[str, str]()
    for address in addresses:
        image_id = id_below(root, address)
        if image_id is None:
            shown = without_secrets(address)
            raise DataError(
                f"{shown} is not below {without_secrets(root)}, which ids are relative to: give --root with the "
                "address that all are below, or no --root for whole addresses as ids"
            )
        if exclude(image_id):
            left_out["excluded files"] += 1
        else:
            known.setdefault(image_id, address)
    for address in {protocol_of(address): address for address in known.values()}.values():
        open_store(address)
    ids = sorted(known)
    others = {name: address for name, address in known.items() if address_below(root, name) != address}
    return RemoteImages(ids, left_out, Remote(root, others))


def walk_store(
    root: str, suffixes: Sequence[str], *, exclude: Exclude, progress: Progress = no_progress
) -> RemoteImages:
    """The objects below a root whose names end like one of `suffixes`, sorted by id.

    What is left out is that of `nsh.core.image_files.walk`.

    Raises:
        DataError: there is nothing at the root, or it may not be listed.
        DownloadError: the store does not answer.
        ConfigError: as `Remote.read`.
    """
    left_out, ids = Counter[str](), list[str]()
    for here, subfolders, files in progress(list_objects(root), desc="list folders"):
        parts = [_written(root, part) for part in here]
        for folder in list(subfolders):
            if reason := reason_to_skip(parts, _written(root, folder), exclude=exclude, kind="folders"):
                left_out[reason] += 1
                subfolders.remove(folder)
        for name in (_written(root, file) for file in files):
            reason = reason_to_skip(parts, name, exclude=exclude, kind="files")
            if reason or not name.lower().endswith(tuple(suffixes)):
                left_out[reason or NO_IMAGE] += 1
            else:
                ids.append("/".join([*parts, name]))
    return RemoteImages(sorted(ids), left_out, Remote(root))


def _written(root: str, name: str) -> str:
    """The name of an object as a file has it: web servers quote names."""
    return unquote(name) if host_of(root) is not None else name
