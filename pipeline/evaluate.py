"""Stage evaluate: codes and the split's labels -> metrics/<method>-<bits>.json and metrics/curves/<method>-<bits>/.

metrics/curves/ gets all that compare needs of a pair (see `nsh.project.results`). It is small text and lies in git as
the figures do: a fresh clone has nothing to do, and pairs that left the matrix make no difference.
"""

from pathlib import Path

from nsh.config import read_params
from nsh.core.manifest import read_codes
from nsh.core.metrics import PROTOCOL, evaluate
from nsh.core.metrics.coded import count_parts, find_nearest, place_codes
from nsh.data.split import read_header, read_part
from nsh.errors import CodesError
from nsh.project.paths import Project
from nsh.project.results import write_measured
from nsh.system.command import run_stage
from nsh.terminal import show_progress, take_pair
from nsh.tracking import record


def main() -> None:
    """Search the gallery's codes with the queries' and write what was measured."""
    pair = take_pair("Measure codes/<method>-<bits> by exact search in Hamming distance.")
    params, project = read_params(), Project()
    files, key, split, k = project.of(pair), pair.key, read_header(project.split), params.evaluate.k
    codes = {part: read_codes(files.codes / part) for part in ("query", "gallery")}
    encoders = [codes[part].header["encoder_sha256"] for part in codes]
    if encoders[0] != encoders[1]:
        raise CodesError(f"query and gallery codes of {key} are of two encoders: run `dvc repro encode@{key}`")
    rows = {part: read_part(project.split, part) for part in codes}
    query, gallery = (place_codes(codes[part], rows[part].ids, rows[part].labels) for part in codes)
    arrays = query.codes.codes, gallery.codes.codes, query.labels, gallery.labels
    threads = params.compute.threads
    evaluation = evaluate(*arrays, bits=pair.bits, k=k, threads=threads, progress=show_progress)
    nearest = find_nearest(query, gallery, seed=split["seed"])
    protocol = {"method": pair.method, "bits": pair.bits, "k": k, **PROTOCOL, **count_parts(query, gallery)}
    protocol |= {"data_set": split["data_set"], "split_sha256": split["sha256"], "encoder_sha256": encoders[1]}
    write_measured(files, evaluation, nearest, protocol=protocol)
    record(Path(), params, pair=pair)


if __name__ == "__main__":
    run_stage(main)
