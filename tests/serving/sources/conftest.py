"""A folder of photographs and the codes of its files, which every other place of the same images must give too."""

from types import SimpleNamespace

import pytest
from PIL import Image
from tests.serving.sources.folders import content

from nsh.serving.arguments import list_images
from nsh.serving.bulk import encode_files
from nsh.serving.encoder import Encoder

IMAGES = 10


@pytest.fixture(scope="session")
def encoder(encoder_path):
    return Encoder(encoder_path, threads=2)


@pytest.fixture(scope="session")
def photos(photographs, tmp_path_factory):
    """Good images with names that need quoting, a bad one, and what is no image by name."""
    folder = tmp_path_factory.mktemp("photos")
    for row in range(IMAGES):
        path = folder / ("a 語" if row % 2 else "b") / f"{row:02} #%2F?.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photographs[row]).save(path)
    (folder / "b/bad.jpg").write_bytes(b"bad")
    for name in ("b/notes.txt", ".hidden.png", ".thumbs/1.png", "__MACOSX/1.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.fixture(scope="session")
def local(encoder, photos, tmp_path_factory):
    """What the files themselves give: the folder of codes, its content, the images and the summary."""
    out, images = tmp_path_factory.mktemp("codes"), list_images([str(photos)])
    summary = encode_files(encoder, images, out=out)
    return SimpleNamespace(out=out, content=content(out), images=images, summary=summary)
