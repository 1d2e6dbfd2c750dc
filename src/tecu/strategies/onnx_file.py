"""A look into an ONNX file before it is run, without the onnx package: is all it needs inside, and is it standard?

The file is a protocol buffer. What we follow of its schema, by field number::

    Model.graph 7, .training_info 20, .functions 25     Graph.node 1, .initializer 5, .sparse_initializer 15
    Training.initialization 1, .algorithm 2             Function.node 7, .attribute_proto 11, .name 1, .domain 10
    Node.op_type 4, .attribute 5, .domain 7             SparseTensor.values 1, .indices 2
    Attribute.t 5, .g 6, .tensors 10, .graphs 11, .sparse_tensor 22, .sparse_tensors 23
    Tensor.external_data 13, .data_location 14 (0 says: in this file)

A parser may take the last of a field that occurs twice, or join them: here every occurrence is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FOLLOW = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
NAMES = {"node": (4, 7), "function": (1, 10)}  # where a kind of message keeps an operator's name and its domain
EXTERNAL_DATA, DATA_LOCATION = 13, 14
STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml"})


def check_model(model: bytes, owner: str) -> None:
    """Refuse, in a sentence about ``owner``, what is no model, keeps weights elsewhere or needs foreign operators."""
    used: set[tuple[str, str]] = set()
    defined: set[tuple[str, str]] = set()  # by the file itself
    pending = [("model", memoryview(model))]
    graphs = 0
    while pending:
        kind, message = pending.pop()
        graphs += kind == "graph"
        names: dict[int, list[str]] = {}
        for number, wire, content in _readable(message, owner):
            if kind == "tensor" and (number == EXTERNAL_DATA or (number == DATA_LOCATION and content != 0)):
                raise ValueError(f"{owner} keeps weights in another file; save it with all of them inside")
            if wire != BYTES or isinstance(content, int):
                continue
            if number in FOLLOW[kind]:
                pending.append((FOLLOW[kind][number], content))
            if number in NAMES.get(kind, ()):
                names.setdefault(number, []).append(bytes(content).decode("utf-8", "replace"))
        if kind in NAMES:
            operator, domain = (names.get(number, [""]) for number in NAMES[kind])
            (used if kind == "node" else defined).update((d, o) for d in domain for o in operator)
    if not graphs:
        raise ValueError(f"{owner} is not an ONNX file, or it is damaged")
    foreign = sorted((domain, name) for domain, name in used - defined if domain not in STANDARD)
    if foreign:
        raise ValueError(f"{owner} uses the custom operator {'.'.join(foreign[0])}; only ONNX's own are accepted")


def _readable(message: memoryview, owner: str) -> Iterator[tuple[int, int, int | memoryview]]:
    try:
        yield from fields(message)
    except (IndexError, ValueError):
        raise ValueError(f"{owner} is not an ONNX file, or it is damaged") from None


def fields(message: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """The fields of a message: number, wire type, and the number or the bytes themselves.

    >>> [(number, bytes(content)) for number, wire, content in fields(memoryview(b"\\x0a\\x02hi"))]
    [(1, b'hi')]
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag >= 1 << 32:  # a parser would drop the upper bits and see another field
            raise ValueError("a tag is too long")
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
