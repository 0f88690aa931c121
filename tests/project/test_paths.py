"""Every path of dvc.yaml is one that the project object spells."""

from pathlib import Path

import yaml

from nsh.project.paths import Pair, Project, pairs_of

ROOT = Path(__file__).parents[2]
PAIR = Pair("nsh", 16)


def made_by_dvc() -> set[str]:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].values()
    outs = [out for stage in stages for out in [*stage.get("outs", ()), *stage.get("metrics", ())]]
    names = [out if isinstance(out, str) else next(iter(out)) for out in outs]
    values = {"${item.method}": "nsh", "${item.bits}": "16", "/${dataset.name}": ""}
    for key, value in values.items():
        names = [name.replace(key, value) for name in names]
    return set(names)


def test_the_outputs_of_every_stage_are_spelled_as_dvc_has_them():
    project, files = Project(), Project().of(PAIR)
    paths = {project.raw, project.weights, project.split, project.embed, project.audit, project.reports}
    paths |= {files.head, files.backbone, files.history, files.encoder, files.parity}
    paths |= {files.codes, files.metrics, files.curves}
    assert {path.as_posix() for path in paths} == made_by_dvc()


def test_another_folder_has_the_same_files_below_it(tmp_path):
    assert Project(tmp_path).of(PAIR).encoder == tmp_path / "models/nsh-16/encoder.onnx"
    assert Project(tmp_path).split_header == tmp_path / "data/split/split.json"
    assert Project(tmp_path).cache("train") == tmp_path / ".cache/nsh/train"


def test_pairs_are_every_method_at_every_length():
    assert [pair.key for pair in pairs_of(["nsh", "itq"], [16, 8])] == ["nsh-16", "nsh-8", "itq-16", "itq-8"]
