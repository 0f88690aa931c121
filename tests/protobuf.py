"""Writes fields of protobuf messages (protobuf.dev, "Encoding"), so that encoder files are changed without onnx."""


def varint(number: int) -> bytes:
    head, rest = number & 0x7F, number >> 7
    return bytes([head | 0x80]) + varint(rest) if rest else bytes([head])


def field(number: int, content: bytes | int) -> bytes:
    """A field of a protobuf message."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content
