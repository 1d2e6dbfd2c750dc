"""Model files of the low-light networks: checked before they are run, and the card that each carries.

A model from a stranger is refused for what it is, in a sentence, instead of failing somewhere inside the runtime.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tecu.strategies.onnx_file import check_model, fields

LARGEST = 32 * 1024 * 1024
METADATA = 14  # field of a model: entries with a key (1) and a value (2)


def read_model(path: str | Path) -> bytes:
    """The bytes of a model file that holds everything it needs; ``ValueError`` says why another is refused."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"model: there is no file {str(path)!r}")
    size = path.stat().st_size
    if size > LARGEST:
        raise ValueError(f"model: {str(path)!r} has {size / 2**20:.0f} MB, at most {LARGEST >> 20} MB are accepted")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"model: {str(path)!r} cannot be read: {error.strerror}") from error
    check_model(content, f"model: {str(path)!r}")
    return content


def model_card(content: bytes) -> dict[str, Any]:
    """The card in the model's metadata; empty if it has none, or none that can be read."""
    for field, _, value in fields(memoryview(content)):
        if field != METADATA or isinstance(value, int):
            continue
        try:
            entry = {key: bytes(part) for key, _, part in fields(value) if not isinstance(part, int)}
            card = json.loads(entry.get(2, b"{}")) if entry.get(1) == b"card" else None
        except (IndexError, ValueError, RecursionError):
            continue
        if isinstance(card, dict):
            return card
    return {}
