"""What decides a code has a digest of its own, which is compared with the file's graph; tried without onnx."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tests.protobuf import field, varint

from nsh.core.contract import DECISIVE, METADATA_KEY, PROVENANCE, EncoderContract
from nsh.core.identity import MAX_CONTRACT, identity_of, read_contract
from nsh.errors import CodesError

FILE = Path(__file__).parents[1] / "golden" / "encoder.onnx"
ENCODER = FILE.read_bytes()
CONTRACT = read_contract(ENCODER, name="encoder.onnx")
IR_VERSION, PRODUCER, DOC_STRING, GRAPH, OPSET, METADATA, TRAINING = 1, 2, 6, 7, 8, 14, 20


def model(*, graph: bytes = b"graph", opset: bytes = b"opset", contract: bytes | None = None) -> bytes:
    """A file with the fields that an encoder has; `contract` is the text of its metadata."""
    note = b"" if contract is None else field(METADATA, field(1, METADATA_KEY.encode()) + field(2, contract))
    return field(IR_VERSION, 10) + field(PRODUCER, b"nsh") + field(GRAPH, graph) + field(OPSET, opset) + note


def signed(**changes: object) -> bytes:
    """A file whose contract has the identity of its graph, and then these changes."""
    contract = replace(CONTRACT, identity=identity_of(model(), CONTRACT))
    return model(contract=json.dumps(json.loads(contract.to_json()) | changes).encode())


def test_the_contract_of_an_encoder_is_read():
    assert CONTRACT.identity == identity_of(ENCODER, CONTRACT)
    assert replace(read_contract(signed(), name="made"), identity=CONTRACT.identity) == CONTRACT


@pytest.mark.parametrize(
    "other",
    [
        model(graph=b"grapf"),
        model(opset=b"opses"),
        model(graph=b"graphopset", opset=b""),
        model() + field(GRAPH, b""),
        model() + field(OPSET, b"other"),
        model() + field(TRAINING, b"what this version does not know"),
    ],
)
def test_graph_operators_and_unknown_parts_count(other):
    assert identity_of(other, CONTRACT) != identity_of(model(), CONTRACT)


@pytest.mark.parametrize("note", [field(PRODUCER, b"tool"), field(DOC_STRING, b"a cat"), field(IR_VERSION, 11)])
def test_notes_of_tools_do_not_count(note):
    assert identity_of(note + model() + note, CONTRACT) == identity_of(model(), CONTRACT)
    assert identity_of(model(contract=b"any"), CONTRACT) == identity_of(model(), CONTRACT)


def changed(name: str) -> EncoderContract:
    """The contract with another value of a field."""
    value = getattr(CONTRACT, name)
    return replace(CONTRACT, **{name: (9.0, *value[1:]) if isinstance(value, tuple) else value * 2 + type(value)(1)})


def test_every_field_of_the_contract_is_of_one_kind():
    kinds = ["schema", "identity", "nested", *DECISIVE, *PROVENANCE]
    assert sorted(kinds) == sorted(one.name for one in fields(EncoderContract))
    assert set(DECISIVE) == {
        *("bits", "image_size", "resample", "preprocessing", "mean", "std", "bit_rule", "bit_order"),
    }


@pytest.mark.parametrize("name", DECISIVE)
def test_a_field_that_decides_a_code_counts(name):
    assert identity_of(ENCODER, changed(name)) != CONTRACT.identity


@pytest.mark.parametrize("name", ["schema", "identity", "nested", *PROVENANCE])
def test_where_an_encoder_comes_from_and_how_its_codes_are_cut_do_not_count(name):
    assert identity_of(ENCODER, changed(name)) == CONTRACT.identity


def test_a_graph_that_changed_since_the_export_is_refused():
    start = ENCODER.index(field(GRAPH, b"")[:1]) + 8
    for place in range(start, len(ENCODER) - 2000, 5003):
        other = bytearray(ENCODER)
        other[place] ^= 1
        with pytest.raises(CodesError, match=r"mine\.onnx has changed since its export"):
            read_contract(bytes(other), name="mine.onnx")


@pytest.mark.parametrize("name", DECISIVE)
def test_a_contract_that_changed_since_the_export_is_refused(name):
    with pytest.raises(CodesError, match="has changed since its export"):
        read_contract(signed(**{name: getattr(changed(name), name)}), name="mine.onnx")


def test_a_file_that_is_cut_off_is_refused_wherever_it_was_cut():
    whole = signed()
    for end in [*range(len(whole)), *range(len(whole), len(ENCODER), 997)]:
        with pytest.raises(CodesError, match=r"is cut off|no encoder|has changed"):
            read_contract((whole if end < len(whole) else ENCODER)[:end], name="mine.onnx")


@pytest.mark.parametrize(
    "content",
    [
        b"hello, this is no protobuf",
        b"\xff" * 40,  # a number that does not end
        field(GRAPH, b"")[:1] + varint(2**60),  # a length beyond the end
        bytes([GRAPH << 3 | 3]) + b"group",  # a kind that onnx.proto3 does not have
        bytes([GRAPH << 3 | 1]) + b"four",  # eight bytes, cut off
    ],
)
def test_what_is_no_onnx_file_is_refused(content):
    with pytest.raises(CodesError, match="is cut off, or is no ONNX file"):
        read_contract(content, name="mine.onnx")


@pytest.mark.parametrize(
    ("contract", "message"),
    [
        (b"", "not readable"),
        (b"\xff\xfe", "not readable"),
        (b"[" * 60_000, "not readable"),
        (b"{}", "not readable"),
        (b'{"schema": 1}', "contract schema 1, this version reads 2: export it again"),
        (b'{"schema": 2, "bits": 8}', "lacks backbone"),
        (b" " * (MAX_CONTRACT + 1), "65,537 bytes, allowed is one of 65,536"),
    ],
)
def test_damaged_metadata_is_refused(contract, message):
    with pytest.raises(CodesError, match=message):
        read_contract(model(contract=contract), name="mine.onnx")


@pytest.mark.parametrize("value", [None, True, "12", 1.5, [], {}, [0.5, 0.5], [0.5, 0.5, None]])
@pytest.mark.parametrize("name", ["bits", "mean", "identity", "method", "preprocessing"])
def test_a_value_of_another_type_is_refused_by_its_name(name, value):
    if isinstance(value, str) and name in ("identity", "method"):
        return
    with pytest.raises(CodesError, match=f"damaged in {name}: copy or export it again"):
        read_contract(signed(**{name: value}), name="mine.onnx")


def test_two_contracts_are_refused():
    with pytest.raises(CodesError, match="has 2 contracts"):
        read_contract(signed() + signed(), name="mine.onnx")


def test_another_model_is_no_encoder():
    other = model() + field(METADATA, field(1, b"author") + field(2, b"somebody"))
    with pytest.raises(CodesError, match=r"other\.onnx is an ONNX model but no encoder"):
        read_contract(other, name="other.onnx")
