from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nsh.errors import ConfigError, DataError
from nsh.studies import figures as module
from nsh.studies.figures import choose_queries, place_codes
from nsh.studies.trials import make_trial


@pytest.fixture
def command(start_study, monkeypatch, quick):
    """`make figures`, where lsh stands for what learns; gives the section."""
    monkeypatch.setattr(module, "CODES_METHODS", ("lsh",))
    draw = start_study(module, quick)

    def run(*arguments):
        draw(*arguments)
        return Path("docs/results.md").read_text().split("<!-- cifar10-figures -->")[1]

    return run


def test_what_is_there_is_drawn(command, quick, leave):
    leave([make_trial(quick, method, bits=bits, seed=0) for method, bits in (("itq", 16), ("lsh", 32))])
    section = command("--methods", "itq", "lsh")
    pictures = sorted(Path("docs/results").glob("*.png"))
    assert [path.name for path in pictures] == ["cifar10-lookup.png", "cifar10-pr.png", "cifar10-tsne.png"]
    for path in pictures:
        assert f"](results/{path.name})" in section
        assert path.stat().st_size < 300_000
        with Image.open(path) as image:
            assert min(image.size) > 300
    assert 'make figures ROOT=<CIFAR-10> METHODS="itq lsh"' in section
    assert "60 queries" in section


def test_without_codes_to_place_there_are_the_curves(command, quick, leave):
    leave([make_trial(quick, "itq", bits=16, seed=0)])
    section = command()
    assert "make figures ROOT=<CIFAR-10>`" in section
    assert "tsne" not in section
    assert not Path("docs/results/cifar10-tsne.png").exists()


def test_with_nothing_measured_the_command_says_what_to_run_before(command):
    with pytest.raises(DataError, match="run `make table` before"):
        command()
    with pytest.raises(ConfigError, match="itg"):
        command("--methods", "itg")


def test_equal_codes_lie_together_and_far_ones_apart():
    generator = np.random.default_rng(0)
    centres = generator.integers(0, 2, size=(2, 32)).astype(bool)
    groups = np.repeat([0, 1], 40)
    codes = centres[groups] ^ (generator.uniform(size=(80, 32)) < 0.05)
    places = place_codes(codes)
    assert np.array_equal(places, place_codes(codes))
    middles = np.stack([places[groups == group].mean(axis=0) for group in (0, 1)])
    nearest = np.linalg.norm(places[:, None] - middles, axis=2).argmin(axis=1)
    assert np.array_equal(nearest, groups)


def test_queries_are_drawn_once_and_for_all():
    rows = choose_queries(10_000)
    assert len(set(rows.tolist())) == 2_000
    assert np.array_equal(rows, choose_queries(10_000))
    assert (np.diff(rows) > 0).all()
    assert choose_queries(60).tolist() == list(range(60))
