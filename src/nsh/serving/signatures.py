"""Signs a file, and says who signed one, by OpenSSH's `ssh-keygen -Y`. Knows nothing of encoders.

The signature of encoder.onnx is encoder.onnx.sig, OpenSSH's own format in the namespace "file":
`ssh-keygen -Y verify -n file` reads it, `ssh-keygen -Y sign -n file` makes it, with keys in agents and hardware too.
Whom to trust says an allowed-signers file (ssh-keygen(1)), one line each: `alice@example.org ssh-ed25519 AAAA...`.
"""

import shutil
import subprocess
from pathlib import Path

from nsh.errors import ConfigError, SignatureError
from nsh.system.files import write_bytes

NAMESPACE = "file"  # what is signed; a signature of a Git commit, for example, is none of a file


def signature_of(file: Path) -> Path:
    """Where the signature of a file lies: beside it."""
    return file.with_name(f"{file.name}.sig")


def sign(file: Path, *, key: Path) -> Path:
    """Write the signature of `file` beside it, and return its path; a former one is replaced.

    `ssh-keygen` asks for the passphrase of a key that has one.

    Raises:
        ConfigError: `ssh-keygen` is not installed, or the key is not usable.
    """
    path, done = signature_of(file), _run("sign", "-f", key, message=file)
    if done.returncode:
        raise ConfigError(f"{key} cannot sign: {_reason(done)}; make a key: ssh-keygen -t ed25519 -f {key}")
    write_bytes(path, done.stdout)
    return path


def verify(file: Path, *, signers: Path) -> str:
    """Who signed `file`, as the allowed-signers file `signers` calls them.

    Raises:
        ConfigError: `ssh-keygen` or `signers` is missing.
        SignatureError: there is no signature, nobody in `signers` made it, or the file is not what was signed.
    """
    path = signature_of(file)
    if not signers.is_file():
        raise ConfigError(
            f"{signers} is no file: list whom you trust, one line each: alice@example.org ssh-ed25519 AAAA"
        )
    if not path.is_file():
        raise SignatureError(f"{path} is not here: sign the file with `nsh sign`, or get its signature from whom it is")
    found = _run("find-principals", "-s", path, "-f", signers, message=file)
    if found.returncode:
        raise SignatureError(f"nobody in {signers} signed {file} ({_reason(found)}): add the signer, or do not use it")
    signer = found.stdout.decode().splitlines()[0]
    checked = _run("verify", "-s", path, "-f", signers, "-I", signer, message=file)
    if checked.returncode:
        raise SignatureError(f"{file} is not what {signer} signed: it has changed since, or the signature is another's")
    return signer


def _run(action: str, *words: object, message: Path) -> "subprocess.CompletedProcess[bytes]":
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ConfigError("ssh-keygen is not here: install OpenSSH's client (apt-get install openssh-client)")
    command = [program, "-Y", action, "-n", NAMESPACE, *map(str, words)]
    with message.open("rb") as content:
        return subprocess.run(command, stdin=content, capture_output=True, check=False)


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The last line of what `ssh-keygen` said."""
    return (done.stderr.decode(errors="replace").strip() or "no reason given").splitlines()[-1].rstrip(". \r")
