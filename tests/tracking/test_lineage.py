import pytest

from nsh.project.paths import Pair
from nsh.system.files import write_text
from nsh.tracking.lineage import changed_parameters, lock_digest, revision_tags

PAIR = Pair("nsh", 16)
LOCK = """
schema: '2.0'
stages:
  download: {cmd: d, outs: [{path: data/raw, md5: 1.dir}]}
  split:
    cmd: s
    params: {params.yaml: {split: {train: 6, gallery: 9, query: 3, draw: uniform, seed: 0, max_bad_share: 0.01}}}
  embed: {cmd: e}
  train@nsh-16:
    cmd: t
    params:
      params.yaml:
        methods.nsh:
          {epochs: 2, batch: 4, learning_rate: 0.0003, m: 1, tau_s: 0.1, tau_c: 0.1, d_z: 8, similarity: cosine,
           quantisation: 1.0, quantiser: norm, hidden: 0, symmetric: false, init: random, ablation: none}
        train.seed: 0
  export@nsh-16: {cmd: x}
  evaluate@nsh-16: {cmd: v, params: {params.yaml: {evaluate.k: 5}}}
  train@itq-16: {cmd: t, params: {params.yaml: {methods.itq: {iterations: 9}}}}
"""


def test_equal_parameters_are_equal_however_they_are_written(project):
    write_text(project / "dvc.lock", LOCK)  # 3e-4 in params.yaml
    assert changed_parameters(project, PAIR) == []


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [("tau_c: 0.1", "tau_c: 0.2", "methods.nsh"), ("k: 5", "k: 6", "evaluate.k"), ("query: 3", "query: 2", "split")],
)
def test_a_changed_parameter_is_named(project, old, new, key):
    write_text(project / "dvc.lock", LOCK)
    params = project / "params.yaml"
    write_text(params, params.read_text().replace(old, new))
    assert changed_parameters(project, PAIR) == [key]


def test_another_pair_is_no_reason(project):
    write_text(project / "dvc.lock", LOCK)
    assert changed_parameters(project, Pair("itq", 16)) == ["methods.itq"]
    assert changed_parameters(project, Pair("itq", 32)) == []


def test_the_lock_digest_knows_its_own_stages_only(project):
    write_text(project / "dvc.lock", LOCK)
    digest = lock_digest(project, PAIR)
    for later in ("{cmd: v,", "iterations: 9"):  # evaluate ends after recording, ITQ is another pair
        write_text(project / "dvc.lock", LOCK.replace(later, later.replace("v", "w").replace("9", "8")))
        assert lock_digest(project, PAIR) == digest
    write_text(project / "dvc.lock", LOCK.replace("1.dir", "2.dir"))
    assert lock_digest(project, PAIR) != digest
    assert lock_digest(project, Pair("nsh", 32)) is None


def test_without_git_and_lock_there_are_no_tags(project):
    assert revision_tags(project, PAIR) == {}


def test_uncommitted_changes_are_told(repository):
    write_text(repository / "params.yaml", (repository / "params.yaml").read_text() + "\n")
    tags = revision_tags(repository, PAIR)
    assert tags["git_dirty"] == "true"
    assert len(tags["git_commit"]) == 40
