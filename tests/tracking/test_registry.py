import numpy as np
import onnxruntime
import pytest
from tests.tracking.conftest import make_project, write_results

from nsh.config import read_params
from nsh.core.identity import read_contract
from nsh.errors import TrackingError
from nsh.system.files import read_json, sha256_file, write_json
from nsh.tracking import download_encoder, list_versions, promote, sync
from nsh.tracking.store import all_pages, open_store

NAME = "folder-nsh-16"


def identity_of_file(path):
    return read_contract(path.read_bytes(), name=str(path)).identity


def aliases(project):
    store = open_store(project, experiment="folder")
    return {alias: str(version) for alias, version in store.client.get_registered_model(NAME).aliases.items()}


@pytest.fixture(scope="module")
def registered(tmp_path_factory, mlflow_database):
    """A project with one version in its registry, only to be read."""
    project = make_project(tmp_path_factory.mktemp("registered") / "project", mlflow_database)
    write_results(project)
    sync(project, read_params(project / "params.yaml"))
    return project


def test_an_encoder_comes_back_byte_for_byte(registered, tmp_path):
    path = download_encoder(f"models:/{NAME}@challenger", to=tmp_path / "deep" / "encoder.onnx", folder=registered)
    assert sha256_file(path) == sha256_file(registered / "models/nsh-16/encoder.onnx")
    image = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    code, logit = onnxruntime.InferenceSession(path).run(["code", "logit"], {"image": image})
    assert np.array_equal(np.unpackbits(code, axis=1), logit > 0)


def test_a_version_says_where_it_comes_from(registered):
    (version,) = list_versions(registered)
    assert (version.name, version.version, version.aliases) == (NAME, "1", ("challenger",))
    expected = {
        "method": "nsh",
        "bits": "16",
        "encoder_identity": identity_of_file(registered / "models/nsh-16/encoder.onnx"),
        "encoder_sha256": sha256_file(registered / "models/nsh-16/encoder.onnx"),
        "head_sha256": sha256_file(registered / "models/nsh-16/head.pt"),
        "split_sha256": "5" * 64,
        "bit_agreement": "1.0",
        "mAP_at_5": "0.5",
        "gates": "passed",
    }
    assert expected.items() <= version.tags.items()


def test_mlflow_itself_can_load_and_run_the_version(registered, monkeypatch):
    import mlflow

    monkeypatch.setattr(mlflow.tracking._tracking_service.utils, "_tracking_uri", None)
    mlflow.set_tracking_uri(f"sqlite:///{registered}/mlflow.db")
    model = mlflow.pyfunc.load_model(f"models:/{NAME}@challenger")
    (answer,) = model.predict(model.input_example)
    assert len(bytes.fromhex(answer["code"])) == 2
    assert model.metadata.metadata["nsh"].startswith("{")


def test_of_equal_versions_the_newest_is_challenger_and_champion_only_by_promotion(project, params, finish):
    finish("nsh", 16, seed=1)
    sync(project, params)
    assert aliases(project) == {"challenger": "1"}
    first = promote(project, NAME)
    assert (first.name, first.version, first.before) == (NAME, "1", None)
    finish("nsh", 16, seed=2)
    sync(project, params)
    assert aliases(project) == {"challenger": "2", "champion": "1"}
    second = promote(project, f"{NAME}/2")
    assert (second.version, second.before) == ("2", "1")
    back = promote(project, f"models:/{NAME}/1")
    assert (back.version, back.before) == ("1", "2")


def test_an_encoder_that_is_registered_again_stays_one_version(project, params, finish):
    finish("nsh", 16, seed=1)
    sync(project, params)
    finish("nsh", 16, seed=2)
    sync(project, params)
    finish("nsh", 16, seed=1, mAP_at_5=0.25)  # an old head, measured anew
    sync(project, params)
    assert [version.version for version in list_versions(project)] == ["2", "1"]
    assert aliases(project)["challenger"] == "2"


def test_an_encoder_that_other_code_exported_stays_one_version(project, params, finish, tmp_path):
    finish("nsh", 16)
    sync(project, params)
    (first,), exported = list_versions(project), (project / "models/nsh-16/encoder.onnx").read_bytes()
    finish("nsh", 16, source="3" * 64)
    again = project / "models/nsh-16/encoder.onnx"
    assert again.read_bytes() != exported
    assert [outcome.done for outcome in sync(project, params) if outcome.key == "nsh-16"] == ["there already"]
    finish("nsh", 16, source="4" * 64, mAP_at_5=0.25)  # measured anew
    sync(project, params)
    (version,) = list_versions(project)
    assert version.version == first.version
    assert version.tags["mAP_at_5"] == "0.25"
    assert version.tags["encoder_identity"] == identity_of_file(again)
    pulled = download_encoder(f"{NAME}@challenger", to=tmp_path / "encoder.onnx", folder=project)
    assert pulled.read_bytes() == exported


def test_an_encoder_that_changed_since_its_export_is_not_recorded(project, params, finish):
    finish("nsh", 16)
    path = project / "models/nsh-16/encoder.onnx"
    path.write_bytes(path.read_bytes().replace(b"\x00\x00\xff\x42", b"\x00\x00\xfe\x42"))  # 127.5
    outcomes = {outcome.key: outcome for outcome in sync(project, params)}
    assert outcomes["nsh-16"].done == "skipped"
    assert "has changed since its export" in outcomes["nsh-16"].reason
    assert list_versions(project) == []


def test_an_encoder_that_fails_its_gates_is_no_challenger(project, params, finish):
    finish("nsh", 16)
    parity = read_json(project / "models/nsh-16/parity.json")
    write_json(project / "models/nsh-16/parity.json", parity | {"bit_agreement": 0.998})
    sync(project, params)
    (version,) = list_versions(project)
    assert version.aliases == ()
    assert "99.8000%" in version.tags["gates"]
    with pytest.raises(TrackingError, match="did not pass its gates"):
        promote(project, f"{NAME}/1")


@pytest.mark.parametrize("past", [[], ["18.11% of the bits are not fp32's, 2.00% are allowed"]])
def test_an_encoder_of_less_precision_is_challenger_only_within_its_limits(project, params, finish, past):
    finish("nsh", 16)
    parity = read_json(project / "models/nsh-16/parity.json")
    write_json(project / "models/nsh-16/parity.json", parity | {"quantisation": {"past_limits": past}})
    sync(project, params)
    (version,) = list_versions(project)
    assert version.aliases == (() if past else ("challenger",))
    assert version.tags["gates"] == ("; ".join(past) or "passed")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (f"{NAME}@champion", f"has no champion: `nsh registry promote {NAME}` sets it"),
        (f"{NAME}@other", "has no other: `nsh registry list`"),
        (f"{NAME}/7", "has no version 7"),
        ("unknown@challenger", rf"no registered model unknown; there are: {NAME}"),
        ("unknown/1", rf"no registered model unknown; there are: {NAME}"),
        (NAME, "write name@alias or name/version"),
        ("@challenger", "write name@alias or name/version"),
    ],
)
def test_what_is_missing_is_said_with_a_hint(registered, tmp_path, reference, message):
    with pytest.raises(TrackingError, match=message):
        download_encoder(reference, to=tmp_path / "encoder.onnx", folder=registered)
    assert not (tmp_path / "encoder.onnx").exists()


def test_an_empty_registry_says_how_to_fill_it(project):
    assert list_versions(project) == []
    with pytest.raises(TrackingError, match="there are: none, run `nsh track sync`"):
        promote(project, NAME)


def test_a_damaged_artifact_is_not_handed_out(project, params, finish, tmp_path):
    finish("nsh", 16)
    sync(project, params)
    (stored,) = (project / "mlartifacts").rglob("model.onnx")
    stored.write_bytes(stored.read_bytes()[:-1])
    with pytest.raises(TrackingError, match="do not use it"):
        download_encoder(f"{NAME}/1", to=tmp_path / "encoder.onnx", folder=project)
    assert not (tmp_path / "encoder.onnx").exists()


def test_more_models_than_a_page_holds_are_all_read(project, params, finish):
    store = open_store(project, experiment="folder")
    for number in range(101):  # MLflow gives 100 at a time, by name
        store.client.create_registered_model(f"a{number:03d}")
    finish("nsh", 16)
    sync(project, params)
    assert [version.name for version in list_versions(project)] == [NAME]
    with pytest.raises(TrackingError, match=f"no registered model absent.*a100, {NAME}"):
        promote(project, "absent")


def test_every_search_reads_all_pages(project, params, finish):
    finish("nsh", 16, seed=1)
    sync(project, params)
    finish("nsh", 16, seed=2)
    sync(project, params)
    store = open_store(project, experiment="folder")
    assert len(all_pages(store.client.search_model_versions, f"name = '{NAME}'", max_results=1)) == 2
    assert len(all_pages(store.client.search_runs, [store.experiment_id], max_results=1)) == 2
