import csv
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nsh.core.codes import first_bits, pack
from nsh.core.codes_writer import CodesWriter
from nsh.core.manifest import Entry, Plan, digest_ids
from nsh.core.metrics import CURVES, evaluate
from nsh.core.metrics.estimate import estimate_map, find_related
from nsh.core.query_logits import write_logits
from nsh.data.split import Rows, Split, write
from nsh.errors import CodesError
from nsh.project.embeddings import Embeddings
from nsh.project.paths import Pair
from nsh.project.projected import project_parts
from nsh.system.command import run_stage
from nsh.system.files import read_json, write_json
from pipeline import evaluate as stage

PROJECT = Path(__file__).parents[2]
BITS, CLASSES = 12, 3


def write_codes(part, ids, codes, *, broken=(), encoder="e" * 64, bits=BITS, nested=()):
    images = {"images": len(ids), "images_sha256": digest_ids(ids)}
    plan = Plan(encoder_identity=encoder, bits=bits, **images, shard_rows=16, nested=nested)
    writer = CodesWriter(Path("codes") / f"nsh-{bits}" / part, plan)
    kept = [row for row in range(len(ids)) if row not in broken]
    for shard, rows in list(writer.pending()):
        entries = [
            Entry(id=ids[row], status="error", error="truncated") if row in broken else Entry(id=ids[row], sha256="0")
            for row in rows
        ]
        writer.write(shard, entries, codes[[row for row in rows if row in kept]])
    writer.finish()


def rows(part, count, *, random, labelled):
    ids = [f"{part}/{row:03d}" for row in range(count)]
    labels = [(int(random.integers(CLASSES)),) for _ in range(count)] if labelled else None
    return Rows(ids=ids, labels=labels, sha256=["0" * 64] * count)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with parameters, a split of 8 queries and 40 gallery images, and their codes to be written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["evaluate.py", "--method", "nsh", "--bits", str(BITS)])
    monkeypatch.setattr(stage, "record", lambda *arguments, **options: recorded(arguments, options))
    shutil.copy(PROJECT / "params.yaml", tmp_path)
    return Project(labelled=True)


def recorded(arguments, options):
    """In the place of the MLflow record, which has its own tests: it reads what the stage has written by then."""
    assert options == {"pair": Pair("nsh", BITS)}
    assert Path(f"metrics/nsh-{BITS}.json").exists()
    print("recorded", arguments[0].resolve())


def save_embeddings(name, values):
    Path("data/embed").mkdir(exist_ok=True)
    np.save(f"data/embed/{name}.npy", values)


class Project:
    def __init__(self, *, labelled):
        random = np.random.default_rng(0)
        self.query = rows("query", 8, random=random, labelled=labelled)
        self.gallery = rows("gallery", 40, random=random, labelled=labelled)
        parts = {"train": rows("train", 2, random=random, labelled=labelled)}
        parts |= {"query": self.query, "gallery": self.gallery}
        classes = ("a", "b", "c") if labelled else None
        write(
            Split(data_set="folder", classes=classes, seed=0, parts=parts, unreadable=[], duplicates_dropped=0),
            Path("data/split"),
        )
        write_json(Path(f"models/nsh-{BITS}/history.json"), [{"epoch": 1, "loss": 0.5}])
        self.logits = random.standard_normal((8, BITS)).astype(np.float32)
        self.query_codes, self.gallery_codes = pack(self.logits > 0), pack(random.random((40, BITS)) < 0.5)
        for name, part in parts.items():
            save_embeddings(name, random.normal(size=(len(part.ids), 5)).astype(np.float32))
        save_embeddings("views", random.normal(size=(2, 3, 5)).astype(np.float16))

    def write_codes(self, **options):
        write_codes("query", self.query.ids, self.query_codes)
        write_logits(Path("codes") / f"nsh-{BITS}" / "query", 0, self.logits)
        write_codes("gallery", self.gallery.ids, self.gallery_codes, **options)

    def measure(self, labels, kept):
        options = {"bits": BITS, "k": 1000, "query_logits": self.logits}
        return evaluate(self.query_codes, self.gallery_codes[kept], *labels, **options)

    def estimate(self, kept):
        projected = project_parts(Embeddings(Path("data/embed")))
        related = find_related(projected["query"], projected["gallery"][kept])
        return estimate_map((self.query_codes, self.gallery_codes[kept]), related, k=1000).value


def run():
    stage.main()
    return read_json(Path(f"metrics/nsh-{BITS}.json"))


def labels(part, kept):
    return np.eye(CLASSES, dtype=bool)[[part.labels[row][0] for row in kept]]


def read_curve(name):
    with Path(f"metrics/curves/nsh-{BITS}/{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_writes_figures_protocol_and_curves(project):
    project.write_codes()
    written = run()
    protocol = written.pop("protocol")
    assert written["mAP_at_1000_reranked"] != written["mAP_at_1000"]
    everything = labels(project.query, range(8)), labels(project.gallery, range(40))
    expected = project.measure(everything, range(40))
    assert written.pop("estimated_mAP_at_1000") == pytest.approx(project.estimate(range(40)), abs=1e-6)
    assert written == pytest.approx(expected.metrics, abs=1e-11)
    counts = {name: protocol[name] for name in ("k", "bits", "queries", "gallery", "gallery_without_code")}
    assert counts == {"k": 1000, "bits": BITS, "queries": 8, "gallery": 40, "gallery_without_code": 0}
    assert protocol["encoder_identity"] == "e" * 64
    assert protocol["split_sha256"] == read_json(Path("data/split/split.json"))["sha256"]
    assert {"ap_denominator", "zero_hits", "order"} <= protocol.keys()
    for name, columns in CURVES.items():
        header, *lines = read_curve(name)
        assert tuple(header) == columns
        assert len(lines) == len(expected.curves[name][columns[0]])
    header, *lines = read_curve("average_precision")
    assert header == ["average_precision"]
    assert [float(line[0]) for line in lines] == pytest.approx(expected.average_precision, abs=1e-6)


def test_nested_codes_have_a_figure_for_every_length(project):
    project.write_codes(nested=[3, 8])
    written = run()
    everything = labels(project.query, range(8)), labels(project.gallery, range(40))
    for bits in (3, 8):
        cut = [first_bits(codes, bits=bits) for codes in (project.query_codes, project.gallery_codes)]
        expected = evaluate(*cut, *everything, bits=bits, k=1000).metrics["mAP_at_1000"]
        assert written[f"mAP_at_1000_first_{bits}_bits"] == pytest.approx(expected, abs=1e-11)
    assert sum("first" in name for name in written) == 2


def test_records_the_pair_once_its_figures_are_written(project, capsys, tmp_path):
    project.write_codes()
    run()
    assert capsys.readouterr().out.splitlines()[-1] == f"recorded {tmp_path.resolve()}"


def test_images_without_a_code_are_left_out_and_counted(project):
    broken = {0, 17, 39}
    project.write_codes(broken=broken)
    kept = [row for row in range(40) if row not in broken]
    everything = labels(project.query, range(8)), labels(project.gallery, kept)
    expected = project.measure(everything, kept)
    written = run()
    protocol = written.pop("protocol")
    assert written.pop("estimated_mAP_at_1000") == pytest.approx(project.estimate(kept), abs=1e-6)
    assert written == pytest.approx(expected.metrics, abs=1e-11)
    assert (protocol["gallery"], protocol["gallery_without_code"]) == (37, 3)


def test_what_some_queries_find_is_named_by_rows_of_the_split(project):
    """Row 0 of the gallery has no code: the codes' rows are not the split's."""
    project.gallery_codes[17] = project.query_codes[3]
    project.write_codes(broken={0})
    run()
    header, *lines = read_curve("nearest")
    assert header == ["query", "gallery", "distance"]
    found = {int(query): [] for query, _, _ in lines}
    for query, gallery, distance in lines:
        found[int(query)].append((int(distance), int(gallery)))
    assert (0, 17) in found[3]
    for query, items in found.items():
        bits = np.unpackbits(project.gallery_codes ^ project.query_codes[query], axis=1).sum(axis=1)
        assert items == sorted((int(bits[row]), row) for row in range(1, 40))[:10]


def test_the_same_codes_give_the_same_bytes(project):
    project.write_codes()
    contents = []
    for _ in range(2):
        run()
        contents.append({path: path.read_bytes() for path in Path("metrics").rglob("*") if path.is_file()})
    assert contents[0] == contents[1]
    # figures, curves, average precision of each query, what some find, history
    assert len(contents[0]) == 1 + len(CURVES) + 3


def test_without_labels_the_files_are_there_with_label_free_figures(tmp_path, monkeypatch, project):
    project = Project(labelled=False)
    project.write_codes()
    written = run()
    assert "empty_ball_share" in written
    assert 0 < written["estimated_mAP_at_1000"] < 1
    assert not any(name.startswith(("mAP", "P_", "recall")) for name in written)
    assert {name: tuple(read_curve(name)[0]) for name in CURVES} == CURVES
    assert read_curve("average_precision") == [["average_precision"]]


def test_codes_of_other_images_are_refused(project):
    write_codes("query", project.query.ids, project.query_codes)
    write_codes("gallery", [f"other/{row}" for row in range(40)], project.gallery_codes)
    with pytest.raises(CodesError, match="not of the images of data/split"):
        run()
    assert not Path("metrics").exists()


def test_logits_are_needed_and_must_be_those_of_the_codes(project):
    project.write_codes()
    path = Path("codes") / f"nsh-{BITS}" / "query" / "00000.logits.npy"
    project.logits[2] = -project.logits[2]
    write_logits(path.parent, 0, project.logits)
    with pytest.raises(CodesError, match="the logits of 1 of 8 queries are not those of their codes"):
        run()
    write_logits(path.parent, 0, project.logits[:7])
    with pytest.raises(CodesError, match=r"must have logits float32 \[8, 12\], found float32 \[7, 12\]"):
        run()
    path.write_bytes(b"")
    with pytest.raises(CodesError, match="no logits of the codes can be read"):
        run()
    path.unlink()
    with pytest.raises(CodesError, match="no logits of the codes can be read"):
        run()
    assert not Path("metrics").exists()


def test_codes_of_two_encoders_are_refused(project):
    project.write_codes(encoder="f" * 64)
    with pytest.raises(CodesError, match="two encoders"):
        run()


def test_a_new_metric_is_one_line(project, code):
    """Its line is among the figures, as CONTRIBUTING says."""
    project.write_codes()
    figures = code / "src/nsh/core/metrics/figures.py"
    line = '        "hits_at_k": found[:, k - 1].astype(np.float64),\n'
    figures.write_text(figures.read_text().replace('        "P_at_k": ', f'{line}        "P_at_k": ', 1))
    steps = "from pipeline import evaluate; evaluate.record = lambda *_, **__: None; evaluate.main()"
    command = [sys.executable, "-c", steps, "--method", "nsh", "--bits", str(BITS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = read_json(Path(f"metrics/nsh-{BITS}.json"))
    assert written["hits_at_1000"] == pytest.approx(written["P_at_1000"] * 40)  # of a gallery of 40


def test_missing_codes_end_in_one_sentence_and_exit_code_two(project, capsys):
    with pytest.raises(SystemExit) as exit_:
        run_stage(stage.main)
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("error: no codes can be read from codes/nsh-12/query")
