"""Stage audit: data/split and data/embed -> data/audit: what was checked about the data, and whether they may train.

data/audit/ holds report.html, findings.json and passed.json (`nsh.audit`). Training depends on passed.json alone, so
that another limit trains nothing again.
"""

from nsh.audit.audit import audit_split, refuse
from nsh.audit.finding import Limit
from nsh.audit.page import render
from nsh.config import read_params
from nsh.data.registry import open_chosen
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.system.files import write_json, write_text
from nsh.system.folders import atomic_folder
from nsh.terminal import show_progress, take_no_arguments


def main() -> None:
    """Check the data, write what was found, and stop where a limit says so."""
    params, project = read_params(), Project()
    images = open_chosen(params.dataset, raw=project.raw)
    audit = audit_split(
        project,
        images,
        limits={name: Limit(**limit) for name, limit in params.audit.model_dump().items()},
        max_bad_share=params.split.max_bad_share,
        threads=params.compute.threads,
        progress=show_progress,
    )
    with atomic_folder(project.audit) as folder:
        write_text(folder / "report.html", render(audit, images))
        write_json(folder / "findings.json", audit.to_json())
    for name, finding in audit.findings.items():
        print(f"{finding.verdict:<12} {name:<16} {finding}")
    refuse(audit, report=project.audit / "report.html")
    write_json(project.audit / "passed.json", {"split_sha256": audit.header["sha256"]})


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
