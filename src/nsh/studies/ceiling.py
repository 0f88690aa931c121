"""Retrieval by cosine similarity of a setting's embeddings: the figures without hashing. Computed once and kept."""

from nsh.data.split import read_part
from nsh.errors import DataError
from nsh.project import embeddings
from nsh.studies.protocol import K
from nsh.studies.setting import Setting
from nsh.system.code import code_digest
from nsh.system.files import read_json, write_json
from nsh.system.progress import Progress


def measure_ceiling(setting: Setting, *, progress: Progress) -> dict[str, float]:
    """The figures of `cosine_map` at `K`, rounded above the last bits that threads may move.

    Raises:
        DataError: the images have no labels.
    """
    path = setting.project.folder / "ceiling.json"
    identity = {"data": setting.digest, "code": code_digest(["nsh.core.metrics.cosine"]), "k": K}
    if path.exists() and (kept := read_json(path))["identity"] == identity:
        return dict(kept["figures"])
    labels = {part: read_part(setting.project.split, part).labels for part in ("query", "gallery")}
    figures = embeddings.measure_ceiling(embeddings.Embeddings(setting.project.embed), labels, k=K, progress=progress)
    if not figures:
        raise DataError(f"the images of {setting.name} have no labels, so nothing says which results are right")
    write_json(path, {"identity": identity, "figures": figures})
    return figures
