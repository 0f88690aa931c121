import dataclasses

import pytest

from nsh.config.declarations import declared_methods, read_declaration
from nsh.errors import ConfigError
from nsh.tuning.space import Range, find_space

WITHOUT_NUMBERS = {"lsh", "pcah", "sh", "hashing_baseline"}


def defaults(method: str) -> dict[str, object]:
    return dataclasses.asdict(read_declaration(method).block())


def space_of(method: str, **changed: object) -> dict[str, Range]:
    return dict(find_space(method, defaults(method) | changed))


def test_numbers_are_tried_from_a_quarter_to_four_times() -> None:
    space = space_of("nsh_plus")
    assert space["learning_rate"] == Range(2e-3, 5e-4, 8e-3)
    assert space["batch"] == Range(128, 32, 512)
    assert space["m"] == Range(10, 3, 40)
    assert space["batch"].is_whole
    assert not space["learning_rate"].is_whole


def test_a_share_keeps_its_distance_from_one() -> None:
    span = space_of("mls3rduh")["alpha"]
    assert (span.low, span.high) == pytest.approx((0.96, 0.9975))
    assert space_of("bgan")["neighbourhood"].high == 40  # a weight has no upper limit


def test_whole_numbers_keep_to_their_lowest() -> None:
    assert space_of("agh")["nearest"] == Range(3, 1, 12)
    assert space_of("bgan", batch=2)["batch"] == Range(2, 2, 8)


def test_what_costs_time_and_what_is_a_choice_is_kept() -> None:
    assert {"epochs", "images"}.isdisjoint(space_of("bgan"))
    kept = {"epochs", "similarity", "quantiser", "hidden", "symmetric", "init", "ablation"}
    assert set(space_of("nsh")) == set(defaults("nsh")) - kept
    assert "tau_s" not in space_of("nsh", tau_s="d_b")  # a word where a number may be too
    assert "layers" not in space_of("agh")


@pytest.mark.parametrize("method", sorted(declared_methods().keys() - WITHOUT_NUMBERS))
def test_both_ends_of_every_range_are_allowed(method: str) -> None:
    block = read_declaration(method).block
    for name, span in space_of(method).items():
        assert span.low < span.default < span.high
        for value in (span.low, span.high):
            assert getattr(block(**{name: span.tidy(value)}), name) == span.tidy(value)


def test_a_value_has_four_digits_but_the_default_is_as_written() -> None:
    span = Range(0.123456, 0.03, 0.5)
    assert span.tidy(0.23456789) == 0.2346
    assert span.tidy(span.default) == span.default


@pytest.mark.parametrize("method", sorted(WITHOUT_NUMBERS))
def test_a_method_without_numbers_is_refused(method: str) -> None:
    with pytest.raises(ConfigError, match=f"a parameter of {method}: it has no number to search"):
        space_of(method)


def test_some_parameters_alone_can_be_searched() -> None:
    assert list(find_space("nsh", defaults("nsh"), only=["tau_c", "m"])) == ["m", "tau_c"]
    with pytest.raises(ConfigError, match="epochs, nonsense of nsh: allowed are batch, learning_rate"):
        find_space("nsh", defaults("nsh"), only=["epochs", "nonsense", "m"])
