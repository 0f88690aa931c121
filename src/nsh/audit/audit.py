"""Checks a split and its embeddings before anything trains on them. Knows no parameter file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsh.audit.finding import Finding, Limit, Verdict
from nsh.audit.labels import check_labels
from nsh.audit.near_duplicates import BITS, RADIUS, NearDuplicate, find_near_duplicates
from nsh.audit.sizes import Sizes, read_sizes
from nsh.data.imageset import ImageSet
from nsh.data.split import PARTS, SplitPart, read_header, read_part, read_unreadable
from nsh.errors import DataError
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Project
from nsh.system.progress import Progress, no_progress

_DECIMALS = 6


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was found.

    Attributes:
        header: of the split.
        parts: of the split.
        findings: every check by its name.
        near_duplicates: from `find_near_duplicates`.
        sizes: of queries and gallery; training images are a part of the gallery.
        unreadable: id and reason of every image left out of the split.
    """

    header: Mapping[str, Any]
    parts: Mapping[str, SplitPart]
    findings: Mapping[str, Finding]
    near_duplicates: list[NearDuplicate]
    sizes: Sizes
    unreadable: list[tuple[str, str]]

    def with_verdict(self, verdict: Verdict) -> list[Finding]:
        """The findings with this verdict."""
        return [finding for finding in self.findings.values() if finding.verdict is verdict]

    def count_classes(self) -> dict[str, dict[str, int]]:
        """Images of each class in each part, by names; empty without labels."""
        labels = {name: part.labels for name, part in self.parts.items()}
        return {
            name: {part: int(table[:, row].sum()) for part, table in labels.items() if table is not None}
            for row, name in enumerate(self.header["classes"] or ())
        }

    def to_json(self) -> dict[str, Any]:
        """The content of findings.json."""
        checks = {name: _to_json(finding) for name, finding in self.findings.items()}
        ids = self.parts["query"].ids, self.parts["gallery"].ids
        pairs = [
            {"query": ids[0][pair.query], "gallery": ids[1][pair.gallery], "bits": pair.distance}
            for pair in self.near_duplicates
        ]
        found = {"checks": checks, "classes": self.count_classes(), "near_duplicates": pairs}
        return {"split_sha256": self.header["sha256"], "code_bits": BITS, "radius": RADIUS, **found}


def audit_split(
    project: Project,
    images: ImageSet,
    *,
    limits: Mapping[str, Limit],
    max_bad_share: float,
    threads: int = 1,
    progress: Progress = no_progress,
) -> Audit:
    """Make every check.

    Args:
        project: its split and embeddings are read.
        images: the data set.
        limits: of the checks near_duplicates, relevant_share, unmatched, imbalance and odd_sizes.
        max_bad_share: what the split stage allows of unreadable images.
        threads: that read and compare; no result depends on it.
        progress: shows images and blocks of queries.

    Raises:
        DataError: split or embeddings are missing, or of each other's past; or an image is gone or changed.
        TrainingError: an embedding is NaN or infinite.
    """
    header, embeddings = read_header(project.split), Embeddings(project.embed)
    embeddings.require(split_sha256=header["sha256"])
    parts = {part: read_part(project.split, part) for part in PARTS}
    query, gallery, unreadable = parts["query"], parts["gallery"], read_unreadable(project.split)
    work: dict[str, Any] = {"threads": threads, "progress": progress}
    near = find_near_duplicates(embeddings, **work)
    sizes = read_sizes(images, [*query.ids, *gallery.ids], image_size=embeddings.header["image_size"], **work)
    findings = {
        "unreadable": _check_unreadable(len(unreadable), len(images.ids), max_bad_share),
        "near_duplicates": _check_near_duplicates(len(near), len(query.ids), limits["near_duplicates"]),
        **check_labels(query.labels, gallery.labels, classes=header["classes"] or (), limits=limits),
        "odd_sizes": sizes.check(limits["odd_sizes"]),
    }
    return Audit(
        header=header, parts=parts, findings=findings, near_duplicates=near, sizes=sizes, unreadable=unreadable
    )


def refuse(audit: Audit, *, report: Path) -> None:
    """Stop where a limit says so.

    Raises:
        DataError: a finding is above its limit `stop`; `report` is named as the page to look at.
    """
    stops = audit.with_verdict(Verdict.STOP)
    if stops:
        raise DataError(f"nothing is trained on these data ({report}): {'; '.join(map(str, stops))}")


def _check_unreadable(unreadable: int, images: int, max_bad_share: float) -> Finding:
    """The split stage has stopped at more than its limit already."""
    value = unreadable / images
    return Finding(
        key="split.max_bad_share",
        value=value,
        found=f"{unreadable} of {images} images cannot be read, a share of {value:.3g}",
        remedy="mend or remove them",
        limit=Limit(stop=max_bad_share),
    )


def _check_near_duplicates(near: int, queries: int, limit: Limit) -> Finding:
    value = near / queries
    return Finding(
        key="audit.near_duplicates",
        value=value,
        found=f"{near} of {queries} queries have a near-duplicate in the gallery, a share of {value:.3g}",
        remedy="remove the copies, or keep those of one scene in one part",
        limit=limit,
    )


def _to_json(finding: Finding) -> dict[str, Any]:
    value = None if finding.value is None else round(finding.value, _DECIMALS)
    limits = {"warn": finding.limit.warn, "stop": finding.limit.stop}
    return {"value": value, **limits, "verdict": str(finding.verdict), "found": finding.found}
