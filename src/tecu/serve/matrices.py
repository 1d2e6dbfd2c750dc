"""A matrix that someone pasted or dropped, checked before anything is learnt from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from tecu.dictionary.tables import is_number, read_table
from tecu.serve.limits import Limits, Refused

Matrix = np.ndarray[Any, Any]
KINDS = (".npy", ".csv", ".txt", ".tsv")


def read_matrix(path: Path, name: str, limits: Limits) -> Matrix:
    """Samples x features, floats without NaN or Inf; every failure is a sentence."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise Refused(422, f"{name} is not a matrix of a kind that is read; .npy and .csv are.")
    try:
        if kind == ".npy":
            _refuse_large(np.load(path, mmap_mode="r", allow_pickle=False).shape, name, limits)
        else:
            path = _as_csv(path)
        found = np.asarray(read_table(path))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        reason = _fault_in_text(path) if kind != ".npy" else None
        raise Refused(422, f"{name} could not be read as a matrix: {reason or _reason(error, path, name)}.") from error
    return _checked(found, name, limits)


def _as_csv(path: Path) -> Path:
    """Pasted text with commas between the numbers, whatever stood there: semicolons, tabs or blanks."""
    text = path.read_text(encoding="utf-8-sig")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("it is empty")
    if len(lines) == 1 and not re.search(r"\d", lines[0]):
        raise ValueError("it has names of columns but no numbers")
    if ";" in text:
        lines = [line.replace(",", ".").replace(";", ",") for line in lines]
    elif "," not in text:
        lines = [re.sub(r"[\t ]+", ",", line) for line in lines]
    target = path.with_name("matrix.csv")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def _fault_in_text(path: Path) -> str | None:
    """Where the text stops being a matrix: the first row of another length, or the first cell without a number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    first = 0 if not lines or all(map(is_number, lines[0].split(","))) else 1  # after the names of columns
    for row, line in enumerate(lines[first:], first + 1):
        cells = line.split(",")
        if len(cells) != len(lines[first].split(",")):
            return f"row {row} has {len(cells)} numbers, row {first + 1} has {len(lines[first].split(','))}"
        for column, cell in enumerate(cells, 1):
            if not is_number(cell):
                return f"row {row}, column {column} is {cell.strip()[:20]!r}, not a number"
    return None


def _checked(found: Matrix, name: str, limits: Limits) -> Matrix:
    _refuse_large(found.shape, name, limits)
    if found.dtype.kind not in "fiub":
        raise Refused(422, f"{name} must hold numbers, it holds {found.dtype}.")
    kind = found.dtype if found.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    matrix = np.ascontiguousarray(found, dtype=kind)
    if not np.all(np.isfinite(matrix)):
        row, column = np.argwhere(~np.isfinite(matrix))[0] + 1
        raise Refused(422, f"{name} has a NaN or an infinite number in row {row}, column {column}.")
    if matrix.shape[0] < 2:
        raise Refused(422, f"{name} has one row; rows are samples, and there must be at least two.")
    return matrix


def _refuse_large(shape: tuple[int, ...], name: str, limits: Limits) -> None:
    if len(shape) != 2 or 0 in shape:
        raise Refused(422, f"{name} must hold a matrix, samples x features; its shape is {shape}.")
    if shape[0] * shape[1] > limits.matrix_entries:
        sides = f"{shape[0]} x {shape[1]}"
        raise Refused(413, f"{name} has {sides} entries, the limit is {limits.matrix_entries:,}.")


def _reason(error: BaseException, path: Path, name: str) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return first.replace(str(path), name).rstrip(".")
