"""params.yaml is read whole, and every mistake in it is named at once."""

from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml

from nsh.config import read_params
from nsh.config.params import change
from nsh.errors import ConfigError

ROOT = Path(__file__).parents[1]


@pytest.fixture
def values() -> dict:
    return yaml.safe_load((ROOT / "params.yaml").read_text())


def read(values: dict, tmp_path: Path):
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(values))
    return read_params(path)


def test_the_project_s_own_parameters_are_valid() -> None:
    params = read_params(ROOT / "params.yaml")
    assert params.matrix.methods == ["nsh_plus", "nsh"]
    assert params.matrix.bits == [16, 32, 64]


def test_a_number_that_yaml_takes_for_text_is_a_number(values: dict, tmp_path: Path) -> None:
    values["methods"]["nsh"]["learning_rate"] = "1e-4"
    assert read(values, tmp_path).methods.nsh.learning_rate == pytest.approx(1e-4)


def test_every_mistake_is_named_by_its_key(values: dict, tmp_path: Path) -> None:
    values["methods"]["nsh"]["tau_z"] = 1
    values["split"]["trian"] = 10
    values["matrix"]["bits"] = [0, 513]
    del values["evaluate"]["k"]
    with pytest.raises(ConfigError) as caught:
        read(values, tmp_path)
    message = str(caught.value)
    for key in ("methods.nsh.tau_z", "split.trian", "matrix.bits.0", "matrix.bits.1", "evaluate.k"):
        assert key in message
    assert "5 mistake" in message


@pytest.mark.parametrize("m", [50, 51])
def test_as_many_positives_as_images_are_refused(values: dict, tmp_path: Path, m: int) -> None:
    values["methods"]["nsh"].update(m=m, batch=50)
    with pytest.raises(ConfigError, match=f"methods.nsh: m = {m} .* choose 1 <= m < batch"):
        read(values, tmp_path)


def test_itq_and_a_hidden_layer_are_refused_together(values: dict, tmp_path: Path) -> None:
    values["methods"]["nsh"].update(init="itq", hidden=8)
    with pytest.raises(ConfigError, match=r"methods\.nsh: .* hidden layer: choose hidden: 0 or init: random"):
        read(values, tmp_path)
    values["methods"]["nsh"]["init"] = "random"
    assert read(values, tmp_path).methods.nsh.hidden == 8


def test_every_ablation_that_is_allowed_exists() -> None:
    from nsh.methods.nsh import Nsh
    from nsh.objectives.sorting.ablations import ABLATIONS

    assert list(get_args(get_type_hints(Nsh)["ablation"])) == ["none", *ABLATIONS]


def test_more_neighbours_than_anchors_are_refused(values: dict, tmp_path: Path) -> None:
    values["methods"]["agh"].update(anchors=10, nearest=11)
    with pytest.raises(ConfigError, match=r"methods\.agh: nearest = 11 of 10 anchors"):
        read(values, tmp_path)


@pytest.mark.parametrize("name", ["nsh_plus", "dgh"])
def test_every_method_s_values_must_go_together(values: dict, tmp_path: Path, name: str) -> None:
    values["methods"][name].update({"nsh_plus": {"m": 128}, "dgh": {"nearest": 301}}[name])
    with pytest.raises(ConfigError, match=rf"methods\.{name}: .* choose "):
        read(values, tmp_path)


def test_what_is_left_out_of_a_method_has_its_default(values: dict, tmp_path: Path) -> None:
    whole = read(values, tmp_path).methods
    values["methods"] = {"nsh": {"tau_c": 0.1}, "nsh_plus": {}}
    assert read(values, tmp_path).methods == whole


def test_a_method_in_use_must_be_written_where_dvc_reads_it(values: dict, tmp_path: Path) -> None:
    del values["methods"]["nsh"]
    with pytest.raises(ConfigError, match=r"params: matrix\.methods has nsh, of which methods has no block: run "):
        read(values, tmp_path)


def test_an_unknown_method_is_refused_with_the_known_ones(values: dict, tmp_path: Path) -> None:
    values["matrix"]["methods"] = ["nsh", "lhs"]
    with pytest.raises(ConfigError, match="found lhs, allowed are nsh, itq, "):
        read(values, tmp_path)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), "fast"])
def test_a_learning_rate_must_be_a_positive_finite_number(values: dict, tmp_path: Path, rate: object) -> None:
    values["methods"]["nsh"]["learning_rate"] = rate
    with pytest.raises(ConfigError, match=r"methods\.nsh\.learning_rate"):
        read(values, tmp_path)


def test_a_missing_file_says_where_to_stand(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="run the command in the project's folder"):
        read_params(tmp_path / "params.yaml")


def test_broken_yaml_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_params(path)


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """DVC refuses it in words of its own, and who reads the file may see the first of them only."""
    path = tmp_path / "params.yaml"
    path.write_text("matrix:\n  bits: [16]\n  methods: [nsh]\n  bits: [32]\n")
    with pytest.raises(ConfigError, match=r"(?s)found 'bits' a second time.*line 4"):
        read_params(path)


def test_an_empty_file_names_the_missing_blocks(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("")
    with pytest.raises(ConfigError):
        read_params(path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("matrix.methods", "nsh", "matrix.methods: found 'nsh'"),
        ("matrix.methods", [], r"matrix.methods: found \[\]"),
        ("matrix.methods", ["itq", "itq"], "matrix.methods: found itq more than once"),
        ("matrix.bits", [16, 16], "matrix.bits: found 16 more than once"),
        ("matrix.bits", [16.5], "matrix.bits.0: found 16.5"),
        ("matrix.bits", [16.0], "matrix.bits.0: found 16.0"),  # DVC would write --bits 16.0
        ("matrix.bits", ["16"], "matrix.bits.0: found '16'"),
        ("matrix.bits", [True], "matrix.bits.0: found True"),
        ("split.train", 500.0, "split.train: found 500.0"),
        ("train.seed", False, "train.seed: found False"),
        ("methods.nsh.tau_c", True, "methods.nsh.tau_c: found true; a number is wanted"),
        ("methods.nsh.symmetric", 1, "methods.nsh.symmetric: found 1"),
        ("methods.nsh", 1, "methods.nsh: found 1"),
        ("backbone.name", 18, "backbone.name: found 18"),
    ],
)
def test_a_value_of_another_type_is_refused(values: dict, tmp_path: Path, key: str, value: object, said: str) -> None:
    *blocks, last = key.split(".")
    block = values
    for name in blocks:
        block = block[name]
    block[last] = value
    with pytest.raises(ConfigError, match=said):
        read(values, tmp_path)


def test_a_block_that_learns_from_activations_goes_by_a_word_of_pythons(values: dict, tmp_path: Path) -> None:
    params = change(read(values, tmp_path), {"train.finetune.from": "layer4"})
    assert params.train.finetune.model_dump()["from"] == params.train.finetune.from_block == "layer4"
    with pytest.raises(
        ConfigError, match=r"train.finetune: from: found layer4 with ranks: 2, allowed is 1; or from: null"
    ):
        change(params, {"train.finetune.ranks": 2})


def test_an_unknown_method_does_not_hide_the_other_mistakes(values: dict, tmp_path: Path) -> None:
    values["matrix"] = {"methods": ["nhs"], "bits": [16.5]}
    values["methods"]["nsh"]["tau_c"] = -1
    with pytest.raises(ConfigError) as caught:
        read(values, tmp_path)
    for mistake in ("has 3 mistake", "matrix.methods.0: found nhs", "matrix.bits.0", "methods.nsh.tau_c"):
        assert mistake in str(caught.value)


@pytest.mark.parametrize("content", [b"a: \xe9", b"a: \x00"])
def test_a_file_that_is_no_text_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="not valid YAML"):
        read_params(path)


def test_a_folder_in_its_place_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_params(tmp_path)


def test_images_may_lie_at_home(values: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for written, meant in {
        "~/photos": "/home/somebody/photos",
        "~no-such-user/x": "~no-such-user/x",
        "a/~": "a/~",
    }.items():
        values["dataset"]["root"] = written
        assert read(values, tmp_path).dataset.root == Path(meant)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("evaluate.k.x", "evaluate.k.x: there is no such parameter, because evaluate.k is a value and no block"),
        ("evaluate.k.x.y", "because evaluate.k.x is a value"),
        ("matrix.methods.0", "because matrix.methods is a value"),
        ("train.finetune.clip.x", "because train.finetune.clip is a value"),
        ("evaluate.kk", "evaluate.kk: no such parameter"),
        ("nothing.at.all", "nothing: no such parameter"),
        ("", "no such parameter"),
        ("evaluate", "evaluate: found 1"),
    ],
)
def test_a_change_of_what_is_no_parameter_names_it(values: dict, tmp_path: Path, key: str, message: str) -> None:
    params = read(values, tmp_path)
    with pytest.raises(ConfigError) as raised:
        change(params, {key: 1})
    assert message in str(raised.value)
