"""`nsh info`: an encoder's metadata, and the devices of this machine."""

import json
from dataclasses import asdict
from pathlib import Path
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
    """Show what decides an encoder's codes, with its identity, and where the encoder comes from.

    Codes can be compared only if the identities of their encoders are equal. Provenance may differ: an encoder that was
    exported again, from the same head by other code, keeps its identity, and its codes and indexes stay valid.

    For example:

        nsh info encoder.onnx
    """
    from nsh.serving.arguments import find_model
    from nsh.serving.commands.terminal import show_progress
    from nsh.serving.encoder import Encoder

    path = find_model(model, from_registry=context.obj, progress=show_progress)
    encoder = Encoder(path)
    if as_json:
        typer.echo(json.dumps(_describe(encoder, path), indent=2))
        return
    for heading, rows in _sections(encoder, path).items():
        typer.echo(heading)
        for name, value in rows.items():
            typer.echo(f"  {name:<10} {value}")


def _describe(encoder: "Encoder", path: Path) -> dict[str, Any]:
    from nsh.core.contract import PROVENANCE
    from nsh.system.files import sha256_file

    fields = asdict(encoder.contract)
    provenance = {name: fields.pop(name) for name in PROVENANCE}
    return {
        **fields,
        "embedding": encoder.dim,
        "reference_images": encoder.reference.held_out.images if encoder.reference else None,
        "provenance": provenance,
        "file_bytes": path.stat().st_size,
        "sha256": sha256_file(path),
    }


def _sections(encoder: "Encoder", path: Path) -> dict[str, dict[str, str]]:
    import onnxruntime

    from nsh.core.codes import code_bytes
    from nsh.system.files import sha256_file

    contract = encoder.contract
    side = f"{contract.image_size} x {contract.image_size}"
    devices = ["cpu"] + ["cuda"] * ("CUDAExecutionProvider" in onnxruntime.get_available_providers())
    length = f"{contract.bits} bits in {code_bytes(contract.bits)} bytes"
    nested = (
        {"nested": f"{', '.join(map(str, contract.nested))}: its first bits are codes too"} if contract.nested else {}
    )
    return {
        "what decides codes": {
            "identity": encoder.identity,
            "code": f"{length}, {contract.bit_rule}, {contract.bit_order}",
            **nested,
            "input": f"RGB {side}, squashed with Pillow's {contract.resample} filter, "
            f"preprocessing version {contract.preprocessing}",
        },
        "provenance": {
            "network": f"{contract.backbone} ({contract.weights}), embedding of {encoder.dim}",
            "trained": f"{contract.method} on {contract.data_set}, split {contract.split_sha256[:12]}",
            "exported": f"by code {contract.source_sha256[:12]}, {contract.libraries}",
            "monitored": _describe_reference(encoder),
            "file": f"{path.stat().st_size / 1e6:.1f} MB, sha256 {sha256_file(path)}",
        },
        "here": {
            "runs on": f"onnxruntime {onnxruntime.__version__}, {' and '.join(devices)}, {encoder.threads} core(s)",
        },
    }


def _describe_reference(encoder: "Encoder") -> str:
    if encoder.reference is None:
        return "not: the file has no reference profile"
    held_out = encoder.reference.held_out
    return (
        f"against {held_out.images:,} held-out images, {held_out.mean_distance:.1f} bits from their nearest anchor on "
        f"average, {held_out.empty_balls:.0%} further than 2"
    )
