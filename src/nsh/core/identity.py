"""The identity of an encoder: the digest of everything in its file that decides a code.

It covers the graph with its weights, the operator sets, and the fields `DECISIVE` of the contract. It does not cover
provenance and the notes of tools (`_NOTES`), so two exports of one head have one identity, though their files differ.
Codes, indexes, the service and the registry compare identities; a file's own SHA-256 is for transport.

An ONNX file is one protobuf message, `ModelProto` of onnx.proto3. Production has no onnx, so this module reads the
outermost fields of the message itself. It does not look into the graph: `nsh.export.canonical` writes equal graphs as
equal bytes.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress

from nsh.core.contract import DECISIVE, METADATA_KEY, PROVENANCE, SCHEMA, EncoderContract
from nsh.errors import CodesError

MAX_CONTRACT = 65_536
"""Bytes of the longest contract that is read."""

_METADATA = 14  # the field `metadata_props`: messages of a key, 1, and a value, 2
_NOTES = {1, 2, 3, 4, 5, 6, _METADATA}  # ir_version, producer_name and _version, domain, model_version, doc_string
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}  # the kinds of a field; a fixed one has so many bytes
_LONGEST_VARINT = 10  # bytes


def identity_of(model: bytes, contract: EncoderContract) -> str:
    """SHA-256 of what decides a code, in hexadecimal.

    Args:
        model: the bytes of an ONNX file.
        contract: of the same encoder; its own field `identity` does not count.

    Raises:
        CodesError: the file is cut off, or no ONNX file.

    Examples:
        >>> from nsh.core.contract import PROVENANCE
        >>> provenance = dict.fromkeys(PROVENANCE, "unknown")
        >>> scale = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
        >>> contract = EncoderContract(bits=8, image_size=96, resample="bilinear", **scale, **provenance)
        >>> graph, note = bytes([58, 2, 18, 0]), bytes([50, 2, 72, 105])  # fields `graph` and `doc_string`
        >>> identity_of(graph + note, contract) == identity_of(graph, contract)
        True
        >>> identity_of(graph[:-1], contract)
        Traceback (most recent call last):
        nsh.errors.CodesError: the encoder's file is cut off, or is no ONNX file: copy it again
    """
    digest = hashlib.sha256()
    for number, content in sorted(_fields(memoryview(model)), key=lambda field: field[0]):
        if number not in _NOTES:
            digest.update(f"{number} {len(content)}\n".encode())
            digest.update(content)
    digest.update(json.dumps({name: getattr(contract, name) for name in DECISIVE}).encode())
    return digest.hexdigest()


def read_contract(model: bytes, *, name: str) -> EncoderContract:
    """The contract of an encoder file, after its identity was compared with the graph's.

    Args:
        model: the bytes of the file.
        name: the file's name in messages.

    Raises:
        CodesError: the file is cut off or no encoder, has a contract that this version does not read, or its graph or
            contract has changed since the export.

    Examples:
        >>> read_contract(bytes([58, 2, 18, 0]), name="other.onnx")
        Traceback (most recent call last):
        nsh.errors.CodesError: other.onnx is an ONNX model but no encoder of this project: name an encoder.onnx
    """
    contract = EncoderContract.from_json(_find_text(model, name=name))
    found = identity_of(model, contract)
    if found != contract.identity:
        raise CodesError(
            f"{name} has changed since its export: its graph and settings have the identity {found[:12]}, its metadata "
            f"say {contract.identity[:12]}; copy or export it again"
        )
    return contract


def identity_of_file(model: bytes, *, name: str) -> str:
    """The identity of an encoder file, also of one of contract schema 1, which has none and pixels of version 1.

    Args:
        model: the bytes of the file.
        name: the file's name in messages.

    Raises:
        CodesError: as `read_contract`.

    Examples:
        >>> identity_of_file(bytes([58, 2, 18, 0]), name="other.onnx")
        Traceback (most recent call last):
        nsh.errors.CodesError: other.onnx is an ONNX model but no encoder of this project: name an encoder.onnx
    """
    text = _find_text(model, name=name)
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        values = json.loads(text)
        if values["schema"] == 1:
            unknown = dict.fromkeys(PROVENANCE, "")  # schema 1 had fewer of these fields
            present = {**unknown, **values, "schema": SCHEMA, "identity": "", "preprocessing": 1}
            return identity_of(model, EncoderContract.from_json(json.dumps(present)))
    return read_contract(model, name=name).identity


def find_metadata(model: bytes, key: str) -> list[bytes]:
    """The texts under `key` in an ONNX file's metadata, UTF-8; there is mostly one or none.

    Raises:
        CodesError: the file is cut off, or no ONNX file.

    Examples:
        >>> find_metadata(bytes([58, 2, 18, 0]), "nsh")
        []
    """
    notes = [dict(_fields(content)) for number, content in _fields(memoryview(model)) if number == _METADATA]
    return [bytes(note.get(2, b"")) for note in notes if bytes(note.get(1, b"")) == key.encode()]


def _find_text(model: bytes, *, name: str) -> str:
    """The contract in the metadata, as text."""
    texts = find_metadata(model, METADATA_KEY)
    if not texts:
        raise CodesError(f"{name} is an ONNX model but no encoder of this project: name an encoder.onnx")
    if len(texts) > 1 or len(texts[0]) > MAX_CONTRACT:
        raise CodesError(
            f"{name} has {len(texts)} contracts, the first of {len(texts[0]):,} bytes, allowed is one of "
            f"{MAX_CONTRACT:,}: export it again"
        )
    return texts[0].decode(errors="replace")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields of a protobuf message (protobuf.dev, "Encoding"): number, and content without its length."""
    place = 0
    while place < len(message):
        tag, start = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            length, start = _varint(message, start)
            place = start + length
        elif kind == _VARINT:
            _, place = _varint(message, start)
        else:
            place = start + _FIXED.get(kind, len(message))
        if place > len(message):
            raise _malformed()
        yield number, message[start:place]


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """The number that begins at `place`, seven bits a byte, lowest first; and where it ends."""
    number = 0
    for count, byte in enumerate(message[place : place + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, place + count + 1
    raise _malformed()


def _malformed() -> CodesError:
    return CodesError("the encoder's file is cut off, or is no ONNX file: copy it again")
