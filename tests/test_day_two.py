"""A year in production, as docs/operations.md tells it: real DVC, MLflow and services, on photographs of handwriting.

Photographs that are negatives arrive: drift alarms, the folder grows, a new encoder is trained, must prove itself, is
compared on real requests, takes the place of the old one under load, and is taken back.
"""

import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image, ImageOps
from sklearn.datasets import load_digits
from tests.commands import run_nsh
from tests.end_to_end.project import BROKEN, IMAGES, Project, draw_digits, make_project, save
from tests.waiting import wait_until

from nsh.serving import Encoder

MODEL = "folder-itq-32"
NEW = "models/itq-32/encoder.onnx"
WINDOW = 200  # searches that the service compares with the encoder's reference profile


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Project:
    """A project whose photographs are digits; ITQ trains in no time."""
    folder = tmp_path_factory.mktemp("day-two")
    draw_digits(folder / "photos")
    (folder / "photos" / BROKEN).unlink()
    project = make_project(folder / "project", folder / "photos")
    params = yaml.safe_load((project.folder / "params.yaml").read_text())
    params["matrix"] = {"methods": ["itq"], "bits": [32]}
    params["split"].update(train=None, gallery=None, query=60)
    (project.folder / "params.yaml").write_text(yaml.safe_dump(params))
    save(project, "one encoder")
    shutil.copy(mlflow_database, project.folder / "mlflow.db")
    return project


def draw_more(folder: Path) -> list[Path]:
    """Photographs like those of the project, of which it has none."""
    folder.mkdir()
    paths = []
    for row, pixels in enumerate(load_digits().images[IMAGES : IMAGES + WINDOW]):
        paths.append(folder / f"{row:04}.png")
        Image.fromarray((pixels / pixels.max() * 255).astype(np.uint8)).save(paths[-1])
    return paths


class Service:
    """`nsh serve`, from outside."""

    def __init__(self, address: str) -> None:
        self.address = address

    def read(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as answer:
            return answer.read().decode()

    def search(self, image: Path) -> dict:
        request = urllib.request.Request(
            f"{self.address}/v1/search?k=5", image.read_bytes(), {"Content-Type": "image/png"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # raises on every status but 200
            return json.load(answer)

    def metric(self, name: str) -> float:
        return next(float(line.split()[-1]) for line in self.read("/metrics").splitlines() if line.startswith(name))


@contextmanager
def serve(project: Project, *arguments: str) -> Iterator[Service]:
    """A service on a free port while the block runs; it must end well."""
    place = project.folder / "address"
    place.unlink(missing_ok=True)
    command = ["nsh", "serve", *arguments, "--images", str(project.images), "--port", "0", "--address-file", str(place)]
    with subprocess.Popen(command, cwd=project.folder, env=project.environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or (place.is_file() and place.read_text()))
            yield Service(place.read_text().strip())
        finally:
            process.terminate()
    assert process.returncode == 0


def make_negatives(photos: Sequence[Path], folder: Path) -> list[Path]:
    """Negatives of the photographs, in class folders of the same names."""
    made = []
    for photo in photos:
        path = folder / photo.parent.name / f"negative-{photo.name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        ImageOps.invert(Image.open(photo)).save(path)
        made.append(path)
    return made


def nsh(project: Project, *words: object, expect: int = 0) -> str:
    """What a command prints in the project's folder, on stdout and on stderr."""
    with chdir(project.folder):
        done = run_nsh(*words)
    output = done.stdout + done.stderr
    assert done.returncode == expect, output
    return output


def champion(project: Project) -> str:
    listed = json.loads(nsh(project, "registry", "list", "--json"))
    return next(version["version"] for version in listed if "champion" in version["aliases"])


def identity(project: Project) -> str:
    return Encoder(project.folder / "deployment/current/encoder.onnx").identity


def test_from_the_first_model_to_the_second_and_back(project: Project, tmp_path: Path) -> None:
    photos = sorted(project.images.rglob("*.png"), key=lambda photo: photo.name)  # all digits take turns
    project.run("dvc", "repro")
    nsh(project, "registry", "promote", MODEL)
    nsh(project, "deploy", f"models:/{MODEL}@champion", "--to", "deployment", "--images", project.images)
    first = identity(project)

    with serve(project, "--deployment", "deployment") as service:
        drift_alarms_only_for_other_images(project, service, draw_more(tmp_path / "usual"), tmp_path)
        a_challenger_must_prove_itself(project, photos[:WINDOW])
        the_new_encoder_is_compared_on_real_requests(project, photos[:8])
        second = the_switch_fails_no_request(project, service, photos, first)
        nsh(project, "rollback", "deployment")
        wait_until(lambda: service.search(photos[0])["encoder_identity"] == first)
    assert identity(project) == first != second
    nsh(project, "registry", "rollback", MODEL)
    assert champion(project) == "1"


def drift_alarms_only_for_other_images(
    project: Project, service: Service, photos: Sequence[Path], folder: Path
) -> None:
    for photo in photos:
        service.search(photo)
    wait_until(lambda: service.metric("nsh_drift_windows_total") == 1)
    assert service.metric("nsh_drift_alarm") == 0
    negatives = make_negatives(photos, folder / "new")
    for photo in negatives:
        service.search(photo)
    wait_until(lambda: service.metric("nsh_drift_windows_total") == 2)
    assert service.metric("nsh_drift_alarm") == 1
    report = folder / "drift.html"
    encoder = "deployment/current/encoder.onnx"
    nsh(project, "monitor", folder / "new", "--model", encoder, "--report", report, expect=1)
    assert "<html" in report.read_text()


def a_challenger_must_prove_itself(project: Project, photos: Sequence[Path]) -> None:
    """The folder grows; the new version is of another split, so that only a person may prefer it."""
    make_negatives(photos, project.images)
    project.run("dvc", "repro")
    refused = nsh(project, "registry", "promote", f"{MODEL}/2", expect=2)
    assert "split" in refused
    nsh(project, "registry", "promote", f"{MODEL}/2", "--force", "the folder has grown")
    assert "the folder has grown" in nsh(project, "registry", "show", MODEL)


def the_new_encoder_is_compared_on_real_requests(project: Project, photos: Sequence[Path]) -> None:
    printed = nsh(project, "deploy", NEW, "--to", "deployment", "--prepare")
    shadow = next(word for word in printed.split() if "encoder.onnx:" in word)
    with serve(project, "--deployment", "deployment", "--shadow", shadow, "--shadow-share", "1") as service:
        for photo in photos:
            service.search(photo)
        wait_until(lambda: json.loads(service.read("/v1/shadow"))["compared"] == len(photos))
        assert 0 < json.loads(service.read("/v1/shadow"))["overlap"] <= 1


def the_switch_fails_no_request(project: Project, service: Service, photos: Sequence[Path], first: str) -> str:
    """Search without a pause while encoder and index are replaced; return the new encoder's identity."""
    answered: list[str] = []
    stop = threading.Event()

    def search() -> None:
        while not stop.is_set():
            for photo in photos[:20]:
                answered.append(service.search(photo)["encoder_identity"])

    clients = [threading.Thread(target=search) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        nsh(project, "deploy", NEW, "--to", "deployment")
        second = identity(project)
        wait_until(lambda: second in answered[-1:] or not all(client.is_alive() for client in clients))
        assert all(client.is_alive() for client in clients), "a request failed"
    finally:
        stop.set()
        for client in clients:
            client.join()
    assert set(answered) == {first, second}
    assert service.metric("nsh_index_items") == len(photos)
    return second
