"""`nsh sign` and `nsh verify`, with keys that OpenSSH makes; it reads our signatures, and we read its own."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.commands import run_nsh

from nsh.core.identity import read_contract

GOLDEN = Path(__file__).parents[1] / "golden/encoder.onnx"
pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs OpenSSH's ssh-keygen")


def make_key(path: Path) -> str:
    """A private key in `path`; its public one, as in an allowed-signers file."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text().strip()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder: an encoder, keys of alice and mallory, and alice as the one who is trusted."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN, "encoder.onnx")
    Path("signers").write_text(
        f"bob@example.org {make_key(Path('bob'))}\nalice@example.org {make_key(Path('alice'))}\n"
    )
    make_key(Path("mallory"))
    return tmp_path


def sign(key="alice"):
    return run_nsh("sign", "encoder.onnx", "--key", key)


def verify(signers="signers"):
    return run_nsh("verify", "encoder.onnx", "--signers", signers)


def test_a_signed_encoder_says_who_signed_it(folder):
    identity = read_contract(GOLDEN.read_bytes(), name="").identity[:12]
    assert sign().stdout == f"encoder.onnx.sig: signature of the encoder {identity}\n"
    result = verify()
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"encoder.onnx: the encoder {identity}, signed by alice@example.org\n"
    assert Path("encoder.onnx").read_bytes() == GOLDEN.read_bytes()


def test_a_second_signature_replaces_the_first(folder):
    sign("mallory")
    sign("bob")
    assert verify().stdout.endswith("signed by bob@example.org\n")


def test_a_changed_file_is_refused(folder):
    sign()
    with Path("encoder.onnx").open("ab") as file:
        file.write(b"\0")
    result = verify()
    assert result.returncode == 2
    assert result.stderr.startswith("error: encoder.onnx is not what alice@example.org signed")


def test_the_signature_of_another_file_is_refused(folder):
    Path("other.onnx").write_bytes(GOLDEN.read_bytes() + b"\0")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", "alice", "other.onnx"], check=True)
    Path("other.onnx.sig").rename("encoder.onnx.sig")
    assert verify().returncode == 2


def test_a_signer_whom_nobody_trusts_is_refused(folder):
    sign("mallory")
    result = verify()
    assert result.returncode == 2
    assert result.stderr.startswith("error: nobody in signers signed encoder.onnx")
    assert "Traceback" not in result.stderr


def test_a_signature_for_another_use_is_none_of_a_file(folder):
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", "alice", "encoder.onnx"], check=True)
    assert verify().returncode == 2


def test_ssh_keygen_reads_our_signature_and_we_read_its(folder):
    command = ["ssh-keygen", "-Y", "verify", "-n", "file", "-f", "signers", "-I", "alice@example.org"]
    sign()
    with Path("encoder.onnx").open("rb") as content:
        subprocess.run([*command, "-s", "encoder.onnx.sig"], stdin=content, check=True, capture_output=True)
    Path("encoder.onnx.sig").unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", "alice", "encoder.onnx"], check=True)
    assert verify().stdout.endswith("signed by alice@example.org\n")


@pytest.mark.parametrize("content", [b"", b"no signature", b"\xff\0"])
def test_a_damaged_signature_is_one_sentence(folder, content):
    Path("encoder.onnx.sig").write_bytes(content)
    result = verify()
    assert result.returncode == 2
    assert result.stderr.startswith("error: nobody in signers signed encoder.onnx")
    assert result.stderr.count("\n") == 1


def test_what_is_missing_is_named(folder):
    assert verify().stderr.startswith("error: encoder.onnx.sig is not here: sign the file with `nsh sign`")
    sign()
    assert verify("nobody").stderr.startswith("error: nobody is no file: list whom you trust")
    assert sign("no-key").stderr.startswith("error: no-key cannot sign: ")
    Path("encoder.onnx").write_text("no encoder")
    assert sign().returncode == 2


def test_a_machine_without_openssh_is_told_what_to_install(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    result = sign()
    assert result.returncode == 2
    assert result.stderr.startswith("error: ssh-keygen is not here: install OpenSSH's client")


def test_key_and_signers_come_from_the_environment_too(folder, monkeypatch):
    monkeypatch.setenv("NSH_SIGNING_KEY", "alice")
    monkeypatch.setenv("NSH_SIGNERS", "signers")
    assert run_nsh("sign", "encoder.onnx").returncode == 0
    assert run_nsh("verify", "encoder.onnx").stdout.endswith("signed by alice@example.org\n")
