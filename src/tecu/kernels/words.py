"""The words for the types of a kernel's arguments, used as annotations.

Arrays are C-contiguous; a vector has one dimension, a matrix two, a stack three. A *number* has the precision of the
data, float32 or float64, and a *level* is the value of a pixel, uint8 or uint16; a kernel is compiled for each.

    Number  Vector  Matrix                     the precision of the data
    Totals                                     a matrix of that precision or of float64: a precision of its own
    Levels  LevelMatrix  LevelStack            the values of pixels
    Double  Doubles  DoubleMatrix              float64
    Single  Singles  SingleMatrix  SingleStack float32
    Integer  Integers  IntegerMatrix           int64
    Indices  IndexMatrix                       int32
    Naturals  NaturalMatrix                    uint32
    Shorts  ShortMatrix                        uint16
    Bytes  ByteMatrix                          uint8
    Bits  BitVector  BitMatrix                 whole numbers of the size of a number
    Flag  Flags                                truth values
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

Number: TypeAlias = Any
Vector: TypeAlias = Any
Matrix: TypeAlias = Any
Totals: TypeAlias = Any
Levels: TypeAlias = Any
LevelMatrix: TypeAlias = Any
LevelStack: TypeAlias = Any
Double: TypeAlias = Any
Doubles: TypeAlias = Any
DoubleMatrix: TypeAlias = Any
Single: TypeAlias = Any
Singles: TypeAlias = Any
SingleMatrix: TypeAlias = Any
SingleStack: TypeAlias = Any
Integer: TypeAlias = Any
Integers: TypeAlias = Any
IntegerMatrix: TypeAlias = Any
Indices: TypeAlias = Any
IndexMatrix: TypeAlias = Any
Naturals: TypeAlias = Any
NaturalMatrix: TypeAlias = Any
Shorts: TypeAlias = Any
ShortMatrix: TypeAlias = Any
Bytes: TypeAlias = Any
ByteMatrix: TypeAlias = Any
Bits: TypeAlias = Any
BitVector: TypeAlias = Any
BitMatrix: TypeAlias = Any
Flag: TypeAlias = Any
Flags: TypeAlias = Any

NUMBER, TOTAL, LEVEL, BITS = "number", "total", "level", "bits"

CHOICES: dict[str, tuple[np.dtype[Any], ...]] = {
    NUMBER: (np.dtype(np.float32), np.dtype(np.float64)),
    TOTAL: (np.dtype(np.float32), np.dtype(np.float64)),
    LEVEL: (np.dtype(np.uint8), np.dtype(np.uint16)),
}
"""What the arguments decide at a call, and what each may be."""

_WORDS: dict[str, tuple[str, int]] = {
    "Number": (NUMBER, 0), "Vector": (NUMBER, 1), "Matrix": (NUMBER, 2), "Totals": (TOTAL, 2),
    "Levels": (LEVEL, 1), "LevelMatrix": (LEVEL, 2), "LevelStack": (LEVEL, 3),
    "Double": ("float64", 0), "Doubles": ("float64", 1), "DoubleMatrix": ("float64", 2),
    "Single": ("float32", 0), "Singles": ("float32", 1), "SingleMatrix": ("float32", 2), "SingleStack": ("float32", 3),
    "Integer": ("int64", 0), "Integers": ("int64", 1), "IntegerMatrix": ("int64", 2),
    "Indices": ("int32", 1), "IndexMatrix": ("int32", 2),
    "Naturals": ("uint32", 1), "NaturalMatrix": ("uint32", 2),
    "Shorts": ("uint16", 1), "ShortMatrix": ("uint16", 2),
    "Bytes": ("uint8", 1), "ByteMatrix": ("uint8", 2),
    "Bits": (BITS, 0), "BitVector": (BITS, 1), "BitMatrix": (BITS, 2),
    "Flag": ("bool", 0), "Flags": ("bool", 1),
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """The type of an argument: of what, and how many dimensions it has."""

    of: str
    ndim: int

    def dtype(self, chosen: Mapping[str, np.dtype[Any]]) -> np.dtype[Any]:
        """Of its entries, once it is known what a number is, a total and a level."""
        if self.of == BITS:
            return np.dtype(f"int{8 * chosen[NUMBER].itemsize}")
        return chosen.get(self.of) or np.dtype(self.of)


def type_of(word: str) -> Type:
    """What a word stands for."""
    if word not in _WORDS:
        raise TypeError(f"an argument of a kernel is annotated {word!r}; known are {', '.join(_WORDS)}")
    return Type(*_WORDS[word])


def choices(keys: Sequence[str]) -> list[tuple[np.dtype[Any], ...]]:
    """What ``keys`` of :data:`CHOICES` may be together: totals are never less precise than the data."""
    together = product(*(CHOICES[key] for key in keys))
    return [chosen for chosen in together if list(chosen) == sorted(chosen, key=lambda dtype: dtype.itemsize)]
