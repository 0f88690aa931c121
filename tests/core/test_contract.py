import json
from dataclasses import FrozenInstanceError, asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsh.core.contract import SCHEMA, EncoderContract
from nsh.errors import CodesError

CONTRACT = EncoderContract(
    bits=32,
    image_size=96,
    resample="bilinear",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    method="nsh",
    backbone="mobilenet_v2",
    weights="none",
    weights_sha256="a" * 64,
    backbone_sha256="b" * 64,
    data_set="fashion-mnist",
    split_sha256="c" * 64,
    source_sha256="d" * 64,
    libraries="torch 2.9.1",
)
triples = st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3)


@given(st.integers(1, 512), st.text(), triples, triples)
def test_comes_back_from_json_as_it_was(bits, method, mean, std):
    contract = replace(CONTRACT, bits=bits, method=method, mean=mean, std=std)
    text = contract.to_json()
    assert "\n" not in text
    assert EncoderContract.from_json(text) == contract


def test_lengths_of_nested_codes_come_back_and_end_with_the_whole():
    contract = replace(CONTRACT, nested=(8, 16))
    assert EncoderContract.from_json(contract.to_json()) == contract
    assert (contract.lengths, CONTRACT.lengths) == ((8, 16, 32), (32,))


def test_an_encoder_of_an_earlier_version_has_no_nested_codes():
    values = json.loads(CONTRACT.to_json())
    del values["nested"]
    assert EncoderContract.from_json(json.dumps(values)) == CONTRACT


@pytest.mark.parametrize("nested", [None, 8, "8", [8.0], [True], ["8"], [0, 8], [16, 8], [8, 8], [8, 32], [8, 64]])
def test_lengths_that_no_codes_can_have_are_damage(nested):
    values = json.loads(CONTRACT.to_json()) | {"nested": nested}
    with pytest.raises(CodesError, match="damaged in nested"):
        EncoderContract.from_json(json.dumps(values))


def test_keys_are_the_fields_in_order():
    assert list(json.loads(CONTRACT.to_json())) == list(asdict(CONTRACT))


def test_says_the_bit_rule_and_order():
    values = json.loads(CONTRACT.to_json())
    assert (values["schema"], values["bit_rule"]) == (SCHEMA, "logit > 0")
    assert values["bit_order"] == "most significant first"


def test_keys_of_a_later_minor_version_are_ignored():
    values = json.loads(CONTRACT.to_json()) | {"colour": "blue"}
    assert EncoderContract.from_json(json.dumps(values)) == CONTRACT


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '"nsh"', "{}"])
def test_what_is_no_contract_is_refused(text):
    with pytest.raises(CodesError, match="not readable"):
        EncoderContract.from_json(text)


def test_another_schema_is_refused_with_both_numbers():
    with pytest.raises(CodesError, match=f"contract schema 99, this version reads {SCHEMA}"):
        EncoderContract.from_json(replace(CONTRACT, schema=99).to_json())


def test_missing_keys_are_all_named():
    values = json.loads(CONTRACT.to_json())
    del values["bits"], values["split_sha256"]
    with pytest.raises(CodesError, match="lacks bits, split_sha256: export it again"):
        EncoderContract.from_json(json.dumps(values))


def test_does_not_change():
    with pytest.raises(FrozenInstanceError):
        CONTRACT.bits = 64
