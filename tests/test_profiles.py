"""Every profile, laid over params.yaml, is valid and can run; the paper's profiles hold what the paper prints."""

import re
from pathlib import Path

import pytest
import yaml
from tests.training.finetune.tiny import make_loop, make_tiny

from nsh.config import Params, read_params
from nsh.config.profiles import compose
from nsh.data import coco, nuswide
from nsh.methods import create
from nsh.reports.paper import SIZES

ROOT = Path(__file__).parents[1]
DEFAULT = (ROOT / "params.yaml").read_text()
PROFILES = sorted((ROOT / "params").glob("*.yaml"))
every_profile = pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)

# "Learning to Hash Naturally Sorts", section 5.1, "Implementation Details"; of several readings those of decision 6.
PAPER = {
    "backbone.name": "resnet50",
    "backbone.weights": "IMAGENET1K_V1",
    "backbone.image_size": 224,
    "train.mode": "finetune",
    "train.finetune.learning_rate": 1e-5,
    "train.finetune.batch_norm": "frozen",
    "train.finetune.clip": None,
    "train.finetune.average": 0.0,
    "train.finetune.held_out": 0,
    "train.finetune.patience": None,
    "train.finetune.keep": "last",
    "methods.nsh.epochs": 200,
    "methods.nsh.batch": 50,
    "methods.nsh.learning_rate": 1e-5,
    "methods.nsh.tau_s": 0.5,  # d_b on inner products of codes of d_b bits: 2 d_b |s - s'| / d_b = |s - s'| / 0.5
    "methods.nsh.d_z": 1024,
    "methods.nsh.similarity": "cosine",
    "methods.nsh.quantisation": 1.0,
    "methods.nsh.quantiser": "norm",
    "methods.nsh.hidden": 0,
    "methods.nsh.symmetric": False,
    "methods.nsh.init": "random",
    "methods.nsh.ablation": "none",
    "matrix.methods": ["nsh"],
    "matrix.bits": [16, 32, 64],
    "dataset.labels": "folder",
    "split.gallery": None,
}
# tau_c, m, query, train, draw and k of each data set.
OF_A_SET = {
    "cifar10": (0.1, 2, None, None, "uniform", 1000),
    "nuswide": (0.5, 3, 2_100, 10_500, "per_class", 5000),
    "coco": (0.5, 3, 5_000, 10_000, "uniform", 5000),
}


def leaves(values: dict, prefix: str = "") -> dict[str, object]:
    """Every value by its dotted key."""
    found: dict[str, object] = {}
    for name, value in values.items():
        found |= leaves(value, f"{prefix}{name}.") if isinstance(value, dict) and value else {f"{prefix}{name}": value}
    return found


def described(text: str) -> list[tuple[str, int, str]]:
    """The lines without their values: key, where the comment stands, comment."""
    parts = [(line.partition("#")[0], line.find("#"), line.partition("#")[2]) for line in text.splitlines()]
    return [(code.partition(":")[0].rstrip(), place, comment) for code, place, comment in parts]


@pytest.fixture
def read_profile(tmp_path: Path):
    """The parameters that a profile makes."""

    def read(path: Path) -> Params:
        taken = tmp_path / "params.yaml"
        taken.write_text(compose(DEFAULT, path.read_text(), name=path.name)[0])
        return read_params(taken)

    return read


def pick(params: Params, key: str) -> object:
    value: object = params
    for name in key.split("."):
        value = getattr(value, name)
    return value


def test_there_are_profiles() -> None:
    papers = {f"paper-{data_set}" for data_set in OF_A_SET}
    assert {path.stem for path in PROFILES} == papers | {"coco-sample", "quick", "own-folder"}


@every_profile
def test_a_profile_says_how_it_is_run(path: Path) -> None:
    assert path.read_text().splitlines()[0].endswith(f"make repro PROFILE={path.stem}")


@every_profile
def test_a_profile_holds_only_what_differs(path: Path) -> None:
    changes = compose(DEFAULT, path.read_text(), name=path.name)[1]
    assert [change.key for change in changes] == list(leaves(yaml.safe_load(path.read_text())))


@every_profile
def test_a_changed_default_reaches_a_profile(path: Path) -> None:
    """Every one of them, but where the profile has a value of its own."""
    own = leaves(yaml.safe_load(path.read_text()))
    changed = re.sub(r"(?m)^( +\w+:) +[^{# \n][^#\n]*", r"\1 changed ", DEFAULT)
    values = leaves(yaml.safe_load(compose(changed, path.read_text(), name=path.name)[0]))
    assert values.keys() == leaves(yaml.safe_load(DEFAULT)).keys()
    assert {key: value for key, value in values.items() if value not in ("changed", {})} == own


@every_profile
def test_a_profile_keeps_the_meaning_of_every_setting(path: Path) -> None:
    assert described(compose(DEFAULT, path.read_text(), name=path.name)[0]) == described(DEFAULT)


@every_profile
def test_its_sizes_fit_one_another(path: Path, read_profile) -> None:
    params = read_profile(path)
    split, held_out = params.split, params.train.finetune.held_out
    assert split.query or params.dataset.name in ("fashion-mnist", "cifar10")  # which have a test part to take whole
    assert split.gallery is None or max(split.train or 0, params.evaluate.k) <= split.gallery
    for name in params.matrix.methods:
        batch = params.methods.model_dump()[name].get("batch", 1)
        assert split.train is None or split.train - held_out >= batch
        assert batch % params.train.finetune.ranks == 0


@every_profile
def test_its_methods_run_in_its_mode(path: Path, read_profile, tmp_path: Path) -> None:
    """One step on a network of two layers."""
    params = read_profile(path)
    if params.train.mode == "frozen":
        return  # every method does
    for name in params.matrix.methods:
        parameters = params.methods.model_dump()[name]
        batch = parameters.get("batch", 50)
        once = {"epochs": 1} if "epochs" in parameters else {}
        loop = make_loop(tmp_path, count=batch, held_out=params.train.finetune.held_out)
        method, bits = create(name, parameters | once), max(params.matrix.bits)
        head = method.fit(make_tiny(batch).data, bits=bits, seed=0, report=lambda record: None, loop=loop)
        assert head.bits == bits


@pytest.mark.parametrize("data_set", OF_A_SET)
def test_a_paper_profile_holds_what_the_paper_prints(data_set: str, read_profile) -> None:
    params = read_profile(ROOT / f"params/paper-{data_set}.yaml")
    assert params.dataset.name == data_set
    assert {key: pick(params, key) for key in PAPER} == PAPER
    nsh, split = params.methods.nsh, params.split
    found = (nsh.tau_c, nsh.m, split.query, split.train, split.draw, params.evaluate.k)
    assert found == OF_A_SET[data_set]


@pytest.mark.parametrize(("data_set", "published"), [("nuswide", nuswide.SET), ("coco", coco.SET)])
def test_a_paper_profile_splits_the_published_images_as_the_paper(data_set, published, read_profile) -> None:
    split = read_profile(ROOT / f"params/paper-{data_set}.yaml").split
    assert (split.query, published.published - split.query) == SIZES[data_set]
    if split.draw == "per_class":
        classes = len(published.classes)
        assert (split.query, split.train) == (100 * classes, 500 * classes)
