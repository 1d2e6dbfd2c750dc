"""A look into an ONNX file without the onnx package: whether its weights are all inside.

The file is a protocol buffer. What we follow of its schema, by field number::

    Model.graph 7                      Graph.node 1, .initializer 5, .sparse_initializer 15
    Model.functions 25, .node 7        Node.attribute 5
    Attribute.t 5, .g 6, .tensors 10, .graphs 11, .sparse_tensor 22, .sparse_tensors 23
    SparseTensor.values 1, .indices 2
    Tensor.data_location 14 (1 says: in another file)
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FOLLOW = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
DATA_LOCATION, EXTERNAL = 14, 1


def has_external_data(model: bytes, owner: str) -> bool:
    """Whether some tensor of the model says that its numbers are in another file."""
    pending = [("model", memoryview(model))]
    try:
        while pending:
            kind, message = pending.pop()
            for number, wire, content in _fields(message):
                if kind == "tensor" and number == DATA_LOCATION and content == EXTERNAL:
                    return True
                if wire == BYTES and number in FOLLOW[kind]:
                    assert isinstance(content, memoryview)
                    pending.append((FOLLOW[kind][number], content))
    except (IndexError, ValueError):
        raise ValueError(f"{owner} is not an ONNX file, or it is damaged") from None
    return False


def _fields(message: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """The fields of a message: number, wire type, and the number or the bytes themselves."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, at = _varint(message, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"unknown wire type {wire}")
        if at + length > len(message):
            raise ValueError("a field ends after its message")
        yield number, wire, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
