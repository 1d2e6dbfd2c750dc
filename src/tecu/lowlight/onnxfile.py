"""A look into an ONNX file before it is run: which operators, whether it points outside itself, its card.

Only the handful of protobuf fields that matter are read, so no package is needed for it. A model from a stranger can
then be refused for what it is, in a sentence, instead of failing somewhere inside the runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LARGEST = 32 * 1024 * 1024
PLAIN_DOMAINS = frozenset({b"", b"ai.onnx"})

# Field numbers of onnx.proto.
MODEL_GRAPH, MODEL_FUNCTIONS, MODEL_METADATA = 7, 25, 14
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_SPARSE = 1, 5, 15
NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 4, 5, 7
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH, ATTRIBUTE_TENSORS, ATTRIBUTE_GRAPHS = 5, 6, 10, 11
TENSOR_EXTERNAL, TENSOR_LOCATION = 13, 14
SPARSE_VALUES, SPARSE_INDICES = 1, 2
FUNCTION_NODE = 7


def read_model(path: str | Path) -> bytes:
    """The bytes of a model file that holds everything it needs; ``ValueError`` says why another is refused."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"model: there is no file {str(path)!r}")
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"model: {str(path)!r} has {size / 2**20:.0f} MB, at most {LARGEST >> 20} MB are accepted")
    content = path.read_bytes()
    try:
        _check_model(content)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"model: {str(path)!r} is not an ONNX file") from error
    except ValueError as error:
        raise ValueError(f"model: {str(path)!r} {error}") from error
    return content


def model_card(content: bytes) -> dict[str, Any]:
    """The card in the model's metadata; empty if it has none."""
    for field, value in _fields(content):
        if field == MODEL_METADATA and isinstance(value, bytes):
            entry = dict(_fields(value))
            if entry.get(1) == b"card":
                card = json.loads(bytes(entry.get(2, b"{}")))
                return card if isinstance(card, dict) else {}
    return {}


def _check_model(content: bytes) -> None:
    found = False
    for field, value in _fields(content):
        if field == MODEL_GRAPH and isinstance(value, bytes):
            found = True
            _check_graph(value)
        elif field == MODEL_FUNCTIONS and isinstance(value, bytes):
            for inner, node in _fields(value):
                if inner == FUNCTION_NODE and isinstance(node, bytes):
                    _check_node(node)
    if not found:
        raise ValueError("is not an ONNX file")


def _check_graph(content: bytes) -> None:
    for field, value in _fields(content):
        if not isinstance(value, bytes):
            continue
        if field == GRAPH_NODE:
            _check_node(value)
        elif field == GRAPH_INITIALIZER:
            _check_tensor(value)
        elif field == GRAPH_SPARSE:
            for inner, tensor in _fields(value):
                if inner in (SPARSE_VALUES, SPARSE_INDICES) and isinstance(tensor, bytes):
                    _check_tensor(tensor)


def _check_node(content: bytes) -> None:
    fields = list(_fields(content))
    domain = next((value for field, value in fields if field == NODE_DOMAIN), b"")
    if domain not in PLAIN_DOMAINS:
        operator = next((value for field, value in fields if field == NODE_OPERATOR), b"?")
        raise ValueError(f"uses the custom operator {_text(domain)}.{_text(operator)}; only ONNX's own are accepted")
    for field, value in fields:
        if field == NODE_ATTRIBUTE and isinstance(value, bytes):
            for inner, part in _fields(value):
                if not isinstance(part, bytes):
                    continue
                if inner in (ATTRIBUTE_GRAPH, ATTRIBUTE_GRAPHS):
                    _check_graph(part)
                elif inner in (ATTRIBUTE_TENSOR, ATTRIBUTE_TENSORS):
                    _check_tensor(part)


def _check_tensor(content: bytes) -> None:
    for field, value in _fields(content):
        if field == TENSOR_EXTERNAL or (field == TENSOR_LOCATION and value == 1):
            raise ValueError("keeps weights in another file; only models in one file are accepted")


def _text(value: bytes | int) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _fields(content: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protobuf message: ``(number, value)``, values as bytes or integers."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(content, place)
            yield number, value
            continue
        if kind == 2:
            length, place = _varint(content, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("is not an ONNX file")
        if place + length > len(content):
            raise ValueError("is cut off")
        yield number, content[place : place + length]
        place += length


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("is not an ONNX file")
