"""Stage evaluate: codes, embeddings and the split's labels -> metrics/<method>-<bits>.json and metrics/curves/.

metrics/curves/<method>-<bits>/ gets all that compare needs of a pair (see `nsh.project.results`). It is small text and
lies in git as the figures do: a fresh clone has nothing to do, and pairs that left the matrix make no difference.
"""

from pathlib import Path

from nsh.config import read_params
from nsh.project.paths import Project
from nsh.stages.evaluate import evaluate_codes
from nsh.system.command import run_stage
from nsh.terminal import show_progress, take_pair
from nsh.tracking import record


def main() -> None:
    """Measure the codes of a pair and record it."""
    pair = take_pair("Measure codes/<method>-<bits> by exact search in Hamming distance.")
    params, project = read_params(), Project()
    files, threads = project.of(pair), params.compute.threads
    evaluate_codes(project, files, k=params.evaluate.k, threads=threads, progress=show_progress)
    record(Path(), params, pair=pair)


if __name__ == "__main__":
    run_stage(main)
