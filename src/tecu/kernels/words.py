"""The words for the types of a kernel's arguments, used as annotations.

Arrays are C-contiguous. A *number* has the precision of the data, float32 or float64; a kernel is compiled for each.

    Number  Vector  Matrix           the precision of the data
    Totals                           a matrix of that precision or of float64: a precision of its own
    Double  Doubles  DoubleMatrix    float64
    Integer  Integers  IntegerMatrix int64
    Indices  IndexMatrix             int32
    Bits  BitVector  BitMatrix       whole numbers of the size of a number
    Flag  Flags                      truth values
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Number: TypeAlias = Any
Vector: TypeAlias = Any
Matrix: TypeAlias = Any
Totals: TypeAlias = Any
Double: TypeAlias = Any
Doubles: TypeAlias = Any
DoubleMatrix: TypeAlias = Any
Integer: TypeAlias = Any
Integers: TypeAlias = Any
IntegerMatrix: TypeAlias = Any
Indices: TypeAlias = Any
IndexMatrix: TypeAlias = Any
Bits: TypeAlias = Any
BitVector: TypeAlias = Any
BitMatrix: TypeAlias = Any
Flag: TypeAlias = Any
Flags: TypeAlias = Any

NUMBER, TOTAL, BITS = "number", "total", "bits"

_WORDS: dict[str, tuple[str, int]] = {
    "Number": (NUMBER, 0), "Vector": (NUMBER, 1), "Matrix": (NUMBER, 2), "Totals": (TOTAL, 2),
    "Double": ("float64", 0), "Doubles": ("float64", 1), "DoubleMatrix": ("float64", 2),
    "Integer": ("int64", 0), "Integers": ("int64", 1), "IntegerMatrix": ("int64", 2),
    "Indices": ("int32", 1), "IndexMatrix": ("int32", 2),
    "Bits": (BITS, 0), "BitVector": (BITS, 1), "BitMatrix": (BITS, 2),
    "Flag": ("bool", 0), "Flags": ("bool", 1),
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """The type of an argument: of what, and how many dimensions it has."""

    of: str
    ndim: int

    def dtype(self, number: np.dtype[Any], total: np.dtype[Any]) -> np.dtype[Any]:
        """Of its entries, once it is known what a number is."""
        if self.of == BITS:
            return np.dtype(f"int{8 * number.itemsize}")
        return {NUMBER: number, TOTAL: total}.get(self.of) or np.dtype(self.of)


def type_of(word: str) -> Type:
    """What a word stands for."""
    if word not in _WORDS:
        raise TypeError(f"an argument of a kernel is annotated {word!r}; known are {', '.join(_WORDS)}")
    return Type(*_WORDS[word])
