"""The packaged model: MLflow gives it images, by Python or as a server; the ONNX file in it is the encoder's."""

import io
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pandas
import pytest
from PIL import Image

from nsh.serving.encoder import Encoder
from nsh.tracking.packaging import CODE_FILE, ENCODER_FILE, package

GOLDEN = Path(__file__).parents[1] / "golden/encoder.onnx"
IMAGES = sorted((GOLDEN.parent / "images").glob("*.jpg"))[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return package(GOLDEN, into=tmp_path_factory.mktemp("package") / "model")


@pytest.fixture(scope="module")
def model(folder):
    import mlflow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns about versions of what it finds
        return mlflow.pyfunc.load_model(str(folder))


@pytest.fixture(scope="module")
def codes():
    return [code.tobytes().hex() for code in Encoder(GOLDEN, threads=1).encode(IMAGES)]


def test_files_of_images_become_the_encoder_s_codes(model, codes):
    assert len(IMAGES) == 2
    answers = model.predict(pandas.DataFrame({"image": [path.read_bytes() for path in IMAGES]}))
    assert answers == [{"code": code, "error": None} for code in codes]


def test_a_file_that_is_no_image_does_not_harm_the_others(model, codes):
    answers = model.predict(pandas.DataFrame({"image": [b"no image", IMAGES[0].read_bytes()]}))
    assert answers[0]["code"] is None
    assert "image" in answers[0]["error"]
    assert answers[1] == {"code": codes[0], "error": None}


def test_the_server_of_mlflow_answers_the_example(model, folder):
    from mlflow.pyfunc import scoring_server

    request = (folder / "serving_input_example.json").read_text()
    answer = scoring_server.invocations(request, "application/json", model, model.metadata.get_input_schema())
    assert answer.status == 200
    (found,) = json.loads(answer.response)["predictions"]
    table = model.input_example
    with Image.open(io.BytesIO(table["image"][0])) as image:
        assert image.format == "JPEG"
    assert found == model.predict(table)[0]
    assert found["error"] is None


def test_the_onnx_flavour_is_the_encoder_byte_for_byte(folder):
    import mlflow.onnx

    assert (folder / ENCODER_FILE).read_bytes() == GOLDEN.read_bytes()
    assert [output.name for output in mlflow.onnx.load_model(str(folder)).graph.output] == [
        "code",
        "logit",
        "embedding",
    ]


def test_the_model_brings_the_code_that_reads_images(folder, codes):
    """In a process that finds it before the installed one."""
    program = (
        "import sys; archive, encoder, image = sys.argv[1:]; sys.path.insert(0, archive)\n"
        "from nsh.serving.mlflow_model import _load_pyfunc\n"
        "import nsh; assert nsh.__file__.startswith(archive), nsh.__file__\n"
        "print(_load_pyfunc(encoder).predict({'image': [open(image, 'rb').read()]})[0]['code'])"
    )
    words = [folder / CODE_FILE, folder / ENCODER_FILE, IMAGES[0]]
    done = subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == codes[0]
    asked = (folder / "requirements.txt").read_text()
    assert [line.partition(">")[0] for line in asked.splitlines() if "mlflow" not in line] == [
        "numpy",
        "pillow",
        "onnxruntime",
    ]
