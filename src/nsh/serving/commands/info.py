"""`nsh info`: an encoder's metadata, and the devices of this machine."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nsh.serving.encoder import Encoder


def info(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(help="A file, https://host/encoder.onnx#sha256=DIGEST, or models:/name@alias (extra ops)."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show an encoder's metadata: bits, input, network, training, digest.

    Codes of two encoders can be compared only if their digests (sha256) are equal.

    For example:

        nsh info encoder.onnx
    """
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.encoder import Encoder

    path = find_model(model, from_registry=context.obj, progress=show_progress)
    encoder = Encoder(path)
    if as_json:
        typer.echo(json.dumps(_describe(encoder, size=path.stat().st_size), indent=2))
        return
    for name, value in _rows(encoder, size=path.stat().st_size):
        typer.echo(f"{name:<10} {value}")


def _describe(encoder: "Encoder", *, size: int) -> dict[str, Any]:
    return {"sha256": encoder.sha256, "file_bytes": size, "embedding": encoder.dim, **asdict(encoder.contract)}


def _rows(encoder: "Encoder", *, size: int) -> list[tuple[str, str]]:
    import onnxruntime

    from nsh.core.codes import code_bytes

    contract = encoder.contract
    side = contract.image_size
    devices = ["cpu"] + ["cuda"] * ("CUDAExecutionProvider" in onnxruntime.get_available_providers())
    return [
        (
            "code",
            f"{contract.bits} bits in {code_bytes(contract.bits)} bytes, {contract.bit_rule}, {contract.bit_order}",
        ),
        ("input", f"RGB {side} x {side}, squashed with Pillow's {contract.resample} filter"),
        ("network", f"{contract.backbone} ({contract.weights}), embedding of {encoder.dim}"),
        ("trained", f"{contract.method} on {contract.data_set}, split {contract.split_sha256[:12]}"),
        ("file", f"{size / 1e6:.1f} MB, sha256 {encoder.sha256}"),
        ("here", f"onnxruntime {onnxruntime.__version__} on {' and '.join(devices)}, {encoder.threads} core(s) to use"),
    ]
