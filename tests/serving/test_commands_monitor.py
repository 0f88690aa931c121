"""`nsh monitor` on images and codes: what it says, what it shows, and its exit codes."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.commands import run_nsh
from tests.references import add_profile, add_text

from nsh.serving.encoder import Encoder

HELD_OUT, GALLERY = 100, 60


def nsh(*arguments):
    return run_nsh("monitor", *arguments)


@pytest.fixture(scope="module")
def model(encoder_path, photographs, tmp_path_factory):
    """The tests' encoder with a reference profile of photographs."""
    encoder = Encoder(encoder_path, threads=1)
    codes = encoder.encode(photographs[: HELD_OUT + GALLERY])
    path = tmp_path_factory.mktemp("model") / "encoder.onnx"
    file = add_profile(encoder_path.read_bytes(), codes[:HELD_OUT], codes[HELD_OUT:], bits=encoder.contract.bits)
    path.write_bytes(file)
    return path


def save(folder, pictures):
    folder.mkdir()
    for row, pixels in enumerate(pictures):
        Image.fromarray(pixels).save(folder / f"{row:03}.png")
    return folder


@pytest.fixture(scope="module")
def same(tmp_path_factory, photographs):
    return save(tmp_path_factory.mktemp("recent") / "same", photographs[HELD_OUT + GALLERY :][:60])


@pytest.fixture(scope="module")
def dark(tmp_path_factory, photographs):
    return save(tmp_path_factory.mktemp("recent") / "dark", photographs[HELD_OUT + GALLERY :][:60] // 4)


def test_images_of_the_same_kind_are_no_drift(model, same):
    result = nsh(same, "--model", model)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("60 images: no drift found (p = ")


def test_darker_images_are_drift_and_the_report_shows_the_furthest(model, dark, tmp_path):
    (dark / "bad.jpg").write_text("no image")
    result = nsh(dark, "--model", model, "--report", tmp_path / "page.html", "--json")
    assert result.returncode == 1, result.stderr
    figures = json.loads(result.stdout)
    assert figures["images"] == 60
    assert figures["alarm"] is True
    assert figures["p_value"] < 0.001
    assert "bad.jpg: not an image" in result.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "60 images: drift" in page
    assert page.count("<img") == 24
    assert page.count("<svg") == 2
    shown = [int(part.split("</b>")[0]) for part in page.split("<figcaption><b>")[1:]]
    assert shown == sorted(shown, reverse=True)


def test_codes_are_compared_as_their_images_are(model, dark, tmp_path):
    assert run_nsh("encode", dark, "--model", model, "--out", tmp_path / "codes").returncode in (0, 1)
    by_codes, by_images = (nsh(source, "--model", model, "--json") for source in (tmp_path / "codes", dark))
    assert by_codes.returncode == 1
    assert by_codes.stdout == by_images.stdout


def test_codes_of_another_encoder_are_refused(model, dark, tmp_path):
    run_nsh("encode", dark, "--model", model, "--out", tmp_path / "codes")
    header = json.loads((tmp_path / "codes" / "header.json").read_text())
    (tmp_path / "codes" / "header.json").write_text(json.dumps(header | {"encoder_identity": "f" * 64}))
    result = nsh(tmp_path / "codes", "--model", model)
    assert result.returncode == 2
    assert "codes of the encoder ffffffffffff" in result.stderr


def test_an_encoder_without_a_profile_says_that_monitoring_is_not_available(encoder_path, same):
    result = nsh(same, "--model", encoder_path)
    assert result.returncode == 2
    assert "has no reference profile: monitoring is not available" in result.stderr


def test_a_damaged_profile_is_one_sentence(encoder_path, same, tmp_path):
    (tmp_path / "encoder.onnx").write_bytes(add_text(encoder_path.read_bytes(), "{}"))
    result = nsh(same, "--model", tmp_path / "encoder.onnx")
    assert result.returncode == 2
    assert result.stderr.startswith("error: the reference profile of ")


@pytest.mark.parametrize(
    ("source", "said"),
    [("nowhere", "there is no image and no folder at nowhere"), ("http://127.0.0.1:9", "does not answer /v1/info")],
)
def test_a_wrong_source_is_one_sentence(model, source, said):
    result = nsh(source, "--model", model)
    assert result.returncode == 2
    assert said in result.stderr


def test_too_few_images_are_one_sentence(model, photographs, tmp_path):
    result = nsh(save(tmp_path / "few", photographs[:3]), "--model", model)
    assert result.returncode == 2
    assert "found 3 recent images, at least 50 are needed" in result.stderr


def test_every_figure_of_the_json_is_finite(model, same):
    figures = json.loads(nsh(same, "--model", model, "--json").stdout)
    assert np.isfinite([value for value in figures.values() if value is not None]).all()
