"""`nsh sign` and `nsh verify`: who made an encoder, and whether it is what they made."""

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An encoder; its signature is FILE.sig.")]


def sign(
    file: File,
    key: Annotated[
        Path, typer.Option(envvar="NSH_SIGNING_KEY", help="Your private key: ssh-keygen -t ed25519 makes one.")
    ],
) -> None:
    """Sign an encoder with an OpenSSH key. Publish the file and FILE.sig; the key stays with you.

    For example:

        nsh sign models/nsh-32/encoder.onnx --key ~/.ssh/id_ed25519
    """
    from nsh.serving import signatures

    identity = _identity(file)
    typer.echo(f"{signatures.sign(file, key=key)}: signature of the encoder {identity[:12]}")


def verify(
    file: File,
    signers: Annotated[
        Path,
        typer.Option(envvar="NSH_SIGNERS", help="Whom you trust, one line each: alice@example.org ssh-ed25519 AAAA..."),
    ],
) -> None:
    """Show who signed an encoder; exit code 2 if nobody you trust did, or the file has changed since.

    For example:

        nsh verify encoder.onnx --signers allowed_signers
    """
    from nsh.serving import signatures

    signer = signatures.verify(file, signers=signers)
    typer.echo(f"{file}: the encoder {_identity(file)[:12]}, signed by {signer}")


def _identity(file: Path) -> str:
    from nsh.core.identity import read_contract

    return read_contract(file.read_bytes(), name=str(file)).identity
