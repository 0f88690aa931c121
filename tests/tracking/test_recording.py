import json
import math

import pytest

from nsh.config import read_params
from nsh.errors import TrackingError
from nsh.project.paths import Pair
from nsh.system.files import read_json, write_json, write_text
from nsh.tracking import record, sync, training_run
from nsh.tracking.recording import _thin
from nsh.tracking.store import open_store

PAIR = Pair("nsh", 16)


def runs_of(project):
    store = open_store(project, experiment="folder")
    return store.client.search_runs([store.experiment_id], order_by=["attributes.start_time ASC"]), store.client


def done(outcomes):
    return {outcome.key: outcome.done for outcome in outcomes}


def test_a_stage_adds_its_results_to_the_run_that_trained_the_head(project, params, finish, real_pictures):
    with training_run(project, params, pair=PAIR) as report:
        report({"epoch": 1, "loss": 2.5})
        report({"epoch": 2, "loss": 1.5})
        finish("nsh", 16)
    (trained,) = runs_of(project)[0]
    record(project, params, pair=PAIR)

    runs, client = runs_of(project)
    assert len(runs) == 1
    run = runs[0]
    assert run.info.end_time == trained.info.end_time  # the run lasts as long as the training did
    assert run.info.run_name == "nsh-16"
    assert run.info.status == "FINISHED"
    assert run.data.tags["source"] == "training"
    assert run.data.metrics["mAP_at_5"] == 0.5
    assert run.data.params["methods.nsh.tau_c"] == "0.1"
    assert run.data.params["methods.nsh.learning_rate"] == "0.0003"
    assert run.data.params["bits"] == "16"
    assert not any(name.startswith(("methods.itq", "matrix")) for name in run.data.params)
    curve = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(point.step, point.value) for point in curve] == [(1, 2.5), (2, 1.5)]
    precision = client.get_metric_history(run.info.run_id, "curve/precision_at_k")
    assert [(point.step, point.value) for point in precision] == [(1, 0.75), (2, 0.5), (3, 0.25)]
    (data_set,) = run.inputs.dataset_inputs
    assert (data_set.dataset.name, data_set.dataset.digest) == ("folder", "5" * 32)
    assert json.loads(data_set.dataset.profile) == {"train": 6, "query": 3, "gallery": 9}
    artifacts = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"nsh-16.json", "parity.json", "history.json", "split.json", "curves", "plots"} <= artifacts
    assert "plots/precision_recall.png" in {item.path for item in client.list_artifacts(run.info.run_id, "plots")}


def test_a_finished_result_is_recorded_once(project, params, finish):
    finish("nsh", 16)
    finish("itq", 32)
    first, second = done(sync(project, params)), done(sync(project, params))
    assert first == {"nsh-16": "added", "nsh-32": "skipped", "itq-16": "skipped", "itq-32": "added"}
    assert second == {"nsh-16": "there already", "nsh-32": "skipped", "itq-16": "skipped", "itq-32": "there already"}
    record(project, params, pair=PAIR)
    runs, client = runs_of(project)
    assert sorted(run.info.run_name for run in runs) == ["itq-32", "nsh-16"]
    assert all(run.data.tags["source"] == "dvc-cache" for run in runs)
    assert len(client.search_model_versions()) == 2
    points = client.get_metric_history(next(run.info.run_id for run in runs), "train/loss")
    assert [point.step for point in points] == [1, 2]


def test_what_record_and_sync_write_is_the_same(project, params, finish, tmp_path):
    def written():
        runs, client = runs_of(project)
        run = runs[-1]
        curve = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "train/loss")]
        tags = {name: value for name, value in run.data.tags.items() if name not in ("mlflow.runName",)}
        return run.data.metrics, run.data.params, curve, tags.keys()

    finish("nsh", 16)
    record(project, params, pair=PAIR)
    by_record = written()
    runs, client = runs_of(project)
    client.delete_run(runs[0].info.run_id)
    assert done(sync(project, params))["nsh-16"] == "added"
    assert written() == by_record


def test_a_second_evaluation_of_one_head_is_a_second_run(project, params, finish):
    finish("nsh", 16)
    sync(project, params)
    metrics = read_json(project / "metrics/nsh-16.json")
    write_json(
        project / "metrics/nsh-16.json", {"mAP_at_3": 0.625, "empty_ball_share": 0.25, "protocol": metrics["protocol"]}
    )
    text = (project / "params.yaml").read_text().replace("evaluate: {k: 5}", "evaluate: {k: 3}")
    write_text(project / "params.yaml", text)
    changed = read_params(project / "params.yaml")
    assert done(sync(project, changed))["nsh-16"] == "added"
    assert done(sync(project, changed))["nsh-16"] == "there already"
    runs, client = runs_of(project)
    assert [run.data.params["evaluate.k"] for run in runs] == ["5", "3"]
    (version,) = client.search_model_versions()  # the encoder is the same
    assert (version.tags["mAP_at_5"], version.tags["mAP_at_3"]) == ("0.5", "0.625")


def test_epochs_that_the_live_run_missed_are_added(project, params, finish):
    with training_run(project, params, pair=PAIR) as report:
        report({"epoch": 2, "loss": 1.5})  # resumed after epoch 1
        finish("nsh", 16)
    record(project, params, pair=PAIR)
    runs, client = runs_of(project)
    points = client.get_metric_history(runs[0].info.run_id, "train/loss")
    assert sorted((point.step, point.value) for point in points) == [(1, 2.5), (2, 1.5)]


def test_metrics_that_are_not_finite_are_refused(project, params, finish):
    finish("nsh", 16, mAP_min_at_5=math.nan)
    with pytest.raises(TrackingError, match="mAP_min_at_5 is not finite"):
        sync(project, params)
    runs, client = runs_of(project)
    assert runs[0].info.status == "FAILED"
    assert runs[0].data.tags["nonfinite"] == "true"
    assert runs[0].data.metrics == {}
    assert client.search_model_versions() == []


def test_a_recording_that_was_cut_short_is_taken_up_again(project, params, finish, monkeypatch):
    finish("nsh", 16)
    with monkeypatch.context() as patch:
        patch.setattr("nsh.tracking.recording.register", _disk_full)
        with pytest.raises(TrackingError, match="No space left"):
            sync(project, params)
    assert done(sync(project, params))["nsh-16"] == "added"
    runs, client = runs_of(project)
    assert len(runs) == 1
    assert len(client.get_metric_history(runs[0].info.run_id, "mAP_at_5")) == 1
    assert len(client.get_metric_history(runs[0].info.run_id, "train/loss")) == 2


def test_a_dead_store_leaves_the_stage_alone(project, params, finish, monkeypatch, capsys):
    finish("nsh", 16)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    record(project, params, pair=PAIR)
    warning = capsys.readouterr().err
    assert "nsh track sync" in warning
    assert "secret" not in warning
    with pytest.raises(TrackingError, match=r"127\.0\.0\.1:9"):
        sync(project, params)


def test_results_of_other_parameters_are_not_recorded(project, params, finish):
    finish("nsh", 16)
    lock = """
schema: '2.0'
stages:
  train@nsh-16:
    cmd: x
    params: {params.yaml: {methods.nsh: {epochs: 2, learning_rate: 0.0003, tau_c: 0.3}}}
    outs: []
"""
    write_text(project / "dvc.lock", lock)
    outcome = sync(project, params)[0]
    assert outcome.done == "skipped"
    assert "methods.nsh" in outcome.reason
    assert runs_of(project)[0] == []


def test_metrics_of_another_encoder_are_not_recorded(project, params, finish):
    encoder = project / "models/nsh-16/encoder.onnx"
    finish("nsh", 16, seed=1)
    another = encoder.read_bytes()
    finish("nsh", 16)
    encoder.write_bytes(another)
    outcome = sync(project, params)[0]
    assert outcome.done == "skipped"
    assert "another encoder" in outcome.reason


def test_thinning_keeps_the_ends_and_the_order():
    points = [(k, 1 / k) for k in range(1, 1001)]
    kept = _thin(points)
    assert kept[:8] == points[:8]
    assert kept[-1] == points[-1]
    assert 40 < len(kept) < 90
    assert kept == sorted(kept)
    assert _thin([]) == []


def _disk_full(*arguments, **named):
    raise OSError(28, "No space left on device")
