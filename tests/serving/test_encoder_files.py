"""Which files are encoders: others, older, changed and cut ones are refused."""

import json

import pytest

from nsh.core.contract import EncoderContract
from nsh.errors import CodesError
from nsh.serving.encoder import Encoder


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({}, r"other\.onnx is an ONNX model but no encoder"), ({"nsh": json.dumps({"schema": 99})}, "contract schema 99")],
)
def test_another_onnx_file_is_no_encoder(encoder_path, tmp_path, metadata, message):
    onnx = pytest.importorskip("onnx", reason="production has none")
    model = onnx.load(encoder_path)
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, tmp_path / "other.onnx")
    with pytest.raises(CodesError, match=message):
        Encoder(tmp_path / "other.onnx")


def test_an_encoder_of_another_version_of_the_preprocessing_is_refused(encoder_path, monkeypatch):
    monkeypatch.setattr("nsh.serving.encoder.PREPROCESSING", 99)
    with pytest.raises(CodesError, match="of the preprocessing, this nsh has version 99, whose pixels differ: export"):
        Encoder(encoder_path)


def test_a_file_that_changed_since_its_export_is_refused(encoder_path, tmp_path):
    content = bytearray(encoder_path.read_bytes())
    content[len(content) // 2] ^= 1  # a weight
    (tmp_path / "changed.onnx").write_bytes(content)
    with pytest.raises(CodesError, match=r"changed\.onnx has changed since its export"):
        Encoder(tmp_path / "changed.onnx")


def test_a_file_that_is_cut_off_is_refused(encoder_path, tmp_path):
    content = encoder_path.read_bytes()
    for end in (0, 1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.onnx").write_bytes(content[:end])
        with pytest.raises(CodesError):
            Encoder(tmp_path / "cut.onnx")


def test_the_contract_is_read_as_it_was_written(contract):
    assert EncoderContract.from_json(contract.to_json()) == contract
