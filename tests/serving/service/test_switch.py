"""A service follows its deployment under load: no request fails, and no answer has parts of two encoders."""

import shutil
import threading
from pathlib import Path

import pytest
from tests.encoders import write_encoder
from tests.serving.service.conftest import TOKEN, listening
from tests.waiting import wait_until

from nsh.serving.bulk import encode_files
from nsh.serving.deployment.deploy import Conditions, Deployer
from nsh.serving.deployment.folder import Deployment
from nsh.serving.deployment.items import ItemEncoder
from nsh.serving.deployment.places import ImagePlaces
from nsh.serving.encoder import Encoder
from nsh.serving.index import Index
from nsh.serving.service.service import Service
from nsh.serving.service.settings import Settings

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def turned_path(encoder_path, tmp_path_factory) -> Path:
    """An encoder whose codes are the golden one's with their bits in reverse order: the same neighbours."""
    path = tmp_path_factory.mktemp("turned") / "encoder.onnx"
    return write_encoder(path, encoder_path, lambda weights, biases: (weights[::-1], biases[::-1]))


@pytest.fixture
def photos(gallery, tmp_path) -> Path:
    return shutil.copytree(gallery, tmp_path / "photos")


@pytest.fixture
def deployer(photos, tmp_path):
    deployment = Deployment(tmp_path / "deployment")

    def make(model: Path) -> Deployer:
        images = ImagePlaces([str(photos)], None, ()).find()
        items = ItemEncoder(Encoder(model, threads=1), images, encode_images=encode_files)
        return Deployer(deployment=deployment, items=items, conditions=Conditions())

    return make


class Load:
    """Clients that search and add items until they are told to stop, and what they were answered."""

    def __init__(self, client, photos: Path, picture: bytes) -> None:
        self._client, self._photos, self._picture = client, photos, picture
        self.answers, self.added, self.failed = [], list[str](), []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=[ask]) for ask in (self._search, self._find, self._add)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def identities(self) -> set[str]:
        return {answer["encoder_identity"] for answer in list(self.answers)}

    def _run(self, ask) -> None:
        number = 0
        while not self._stop.is_set():
            answer = ask(number)
            number += 1
            if answer.status != 200:
                self.failed.append(answer)

    def _search(self, number: int):
        return self._note(self._client.post_image("/v1/search?k=5&id_prefix=left/", self._picture))

    def _find(self, number: int):
        return self._note(self._client.post_json("/v1/search?k=5&id_prefix=left/", {"id": "left/00.png"}))

    def _note(self, answer):
        if answer.status == 200:
            self.answers.append(answer.json)
        return answer

    def _add(self, number: int):
        """Add an item whose image is among the others, as an uploader would."""
        name = f"right/added-{number:04d}.png"
        (self._photos / name).write_bytes(self._picture)
        answer = self._client.ask("PUT", f"/v1/items/{name}", self._picture, Content_Type="image/png", **BEARER)
        if answer.status == 200:
            self.added.append(name)
        return answer


def test_a_switch_and_the_way_back_under_load(deployer, encoder_path, turned_path, photos, picture):
    first, second = deployer(encoder_path), deployer(turned_path)
    deployment = first.deployment
    with deployment.changing():
        first.deploy()
    settings = Settings(deployment=deployment.folder, images=photos, token=TOKEN, refresh=0.05)
    identities = [model.items.encoder.identity for model in (first, second)]
    with listening(Service(settings)) as client:
        with Load(client, photos, picture) as load:
            wait_until(lambda: load.added and load.identities() == {identities[0]})
            with deployment.changing():
                second.deploy()
            wait_until(lambda: load.answers[-1]["encoder_identity"] == identities[1])
            with deployment.changing():
                deployer(encoder_path).go_back()
            wait_until(lambda: load.answers[-1]["encoder_identity"] == identities[0])
        origin = {"code": load.answers[0]["code"], "encoder_identity": identities[1]}
        refused = client.post_json("/v1/search", origin)
    assert not load.failed
    assert (refused.status, refused.json["type"]) == (409, "urn:nsh:problem:other-encoder")
    answers = {(a["encoder_identity"], a["code"], str(a["hits"])) for a in load.answers}
    codes = [model.items.encoder.encode([picture])[0].tobytes().hex() for model in (first, second)]
    assert {answer[:2] for answer in answers} == set(zip(identities, codes, strict=True))
    assert codes[0] != codes[1]
    assert len({hits for _, _, hits in answers}) == 1  # bits in reverse order have the same distances
    assert set(load.added) <= {name for batch in Index.open(deployment.address).batches() for name in batch.ids}


def test_a_service_whose_deployment_is_gone_goes_on_and_says_so(deployer, encoder_path, picture, tmp_path):
    first = deployer(encoder_path)
    with first.deployment.changing():
        first.deploy()
    with listening(Service(Settings(deployment=first.deployment.folder, refresh=0.05))) as client:
        (first.deployment.folder / "current").rename(tmp_path / "away")
        wait_until(lambda: client.get("/readyz").status == 503)
        assert client.post_image("/v1/search", picture).status == 200
        assert "has no release" in client.get("/readyz").json["detail"]
        (tmp_path / "away").rename(first.deployment.folder / "current")
        wait_until(lambda: client.get("/readyz").status == 200)
