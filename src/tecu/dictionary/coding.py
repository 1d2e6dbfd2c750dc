"""Sparse coding of whole batches: the compiled kernels behind plain calls.

Samples and atoms are rows: ``Y`` samples x features, ``D`` atoms x features, codes samples x atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tecu.dictionary.workers import Workers

Matrix = np.ndarray[Any, Any]

PIVOT = 1e-3
"""An atom whose squared distance to the span of those already chosen is below this adds nothing but noise."""

TILE = 1 << 19
"""Correlations at a time."""

ENTRIES = 1 << 20
"""Room for so many entries of codes at a time."""

ALONE = Workers(1)


@dataclass(frozen=True)
class Codes:
    """What a CSR array holds, by the same names, and nothing of what one costs; indices are sorted."""

    indptr: Matrix
    indices: Matrix
    data: Matrix

    @classmethod
    def empty(cls, samples: int, capacity: int, dtype: Any) -> Codes:
        """Room for ``capacity`` entries a row."""
        room = samples * capacity
        return cls(np.zeros(samples + 1, np.int32), np.empty(room, np.int32), np.empty(room, dtype))

    def csr(self, n_components: int) -> Any:
        """The same codes as a CSR array."""
        from scipy.sparse import csr_array

        own = self if len(self.data) == self.indptr[-1] else self.trimmed()
        codes = csr_array((own.data, own.indices, own.indptr), shape=(len(own.indptr) - 1, n_components))
        codes.has_canonical_format = True
        return codes

    @staticmethod
    def stacked(parts: Sequence[Codes]) -> Codes:
        """The rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        counts = np.array([0, *(part.indptr[-1] for part in parts)])
        offsets = np.cumsum(counts).astype(np.int32)
        ends = [part.indptr[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
        indices = np.concatenate([part.indices[: part.indptr[-1]] for part in parts])
        data = np.concatenate([part.data[: part.indptr[-1]] for part in parts])
        return Codes(np.concatenate([np.zeros(1, np.int32), *ends]), indices, data)

    def some(self, rows: slice) -> Codes:
        """Some rows, which begin somewhere in the same memory."""
        return Codes(self.indptr[rows.start : rows.stop + 1], self.indices, self.data)

    def trimmed(self) -> Codes:
        """The same without room for more."""
        count = int(self.indptr[-1])
        return Codes(self.indptr, self.indices[:count].copy(), self.data[:count].copy())

    def clipped(self, lower: float, upper: float) -> Codes:
        """Cut to bounds; what becomes zero goes."""
        if lower == -np.inf and upper == np.inf:
            return self
        data = np.clip(self.data[: self.indptr[-1]], lower, upper)
        used = data != 0
        indptr = np.concatenate([[0], np.cumsum(used)])[self.indptr].astype(np.int32)
        return Codes(indptr, self.indices[: len(used)][used], data[used])


@lru_cache(maxsize=8)
def sign_mask(dtype: Any, positive: bool) -> Any:
    """What the argmax of a kernel keeps of a float's bits: all but the sign, or all when codes must be positive."""
    integer = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    return integer(-1) if positive else integer(np.iinfo(integer).max)


def greedy(
    Y: Matrix,
    D: Matrix,
    gram: Matrix,
    *,
    stop: float,
    penalty: float = 0.0,
    cap: int,
    positive: bool = False,
) -> Codes:
    """Orthogonal matching pursuit for each sample of ``Y``, ``gram = D D'``.

    A path ends at ``cap`` atoms or when the next one lowers ``1/2 ||y - D'w||^2`` by no more than ``stop``; of the
    path, the prefix with the least ``1/2 ||y - D'w||^2 + penalty ||w||_0`` is kept.
    """
    return _coded(Y, D, gram, None, slice(0, len(Y)), stop, penalty, cap, 0.0, 2, positive, False)[0]


def polish_samples(
    Y: Matrix,
    D: Matrix,
    gram: Matrix,
    old: Any,
    rows: slice,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    restart: int = 1,
) -> tuple[Codes, float, int]:
    """Refit, drop and insert from the supports of ``old`` (CSR or ``None``) and from none; each sample's better code.

    For some rows of the samples ``Y``, ``c = D y``, it minimises
    ``q(w) = 1/2 w'Gw - c'w + shift/2 ||w - old||^2 + penalty ||w||_0``. Returns the codes, their change of ``q`` and
    how many are not settled.
    """
    return _coded(Y, D, gram, old, rows, penalty, penalty, cap, shift, restart, False, True)


@lru_cache(maxsize=16)
def _no_codes(samples: int, dtype: Any) -> tuple[Matrix, Matrix, Matrix]:
    return np.zeros(samples + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, dtype)


def _coded(
    Y: Matrix,
    D: Matrix,
    gram: Matrix,
    old: Any,
    rows: slice,
    stop: float,
    penalty: float,
    cap: int,
    shift: float,
    restart: int,
    positive: bool,
    polished: bool,
) -> tuple[Codes, float, int]:
    """The kernel's codes of some samples, their change of ``q``, how many are not settled.

    Correlations are made as many at a time as stay in the cache, codes as many as there is room for at their longest.
    """
    from tecu.dictionary.kernels_polish import codes_of

    number, m = D.dtype.type, len(D)
    cap = max(1, min(cap, m))
    mask, work, samples = sign_mask(number, positive), np.empty(m, number), rows.stop - rows.start
    tile = np.empty((min(tile_height(m), samples), m), number)
    numbers, supports = np.empty((cap + 4, cap)), np.empty((2, cap), np.int32)
    parts, change, unsettled = [], 0.0, 0
    height = max(tile_height(m), ENTRIES // cap)
    for first in range(rows.start, max(rows.stop, rows.start + 1), height):  # no samples have codes, too
        y = Y[first : min(first + height, rows.stop)]
        k = len(y)
        before = _no_codes(k, number) if old is None else (old.indptr[first : first + k + 1], old.indices, old.data)
        codes = Codes.empty(k, cap, number)
        moved, settled = codes_of(
            y, D, gram, number(shift), *before, mask, float(stop), float(penalty), cap, PIVOT, restart, polished,
            tile, work, work.view(mask.dtype), numbers, supports, codes.indices, codes.data, codes.indptr[1:],
        )  # fmt: skip
        parts.append(codes.trimmed())
        change, unsettled = change + float(moved), unsettled + k - int(settled)
    return Codes.stacked(parts), change, unsettled


def tile_height(n_components: int) -> int:
    """Samples at a time."""
    return max(1, TILE // n_components)


def descend(
    correlations: Matrix,
    gram: Matrix,
    old: Any,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    lower: float = -np.inf,
    upper: float = np.inf,
    moves: int = 1000,
    accuracy: float = 1e-7,
) -> Any:
    """Exact coordinate descent from ``old`` (CSR) over a box, at most ``cap`` non-zeros. ``correlations`` is
    changed."""
    from tecu.dictionary.kernels_descend import descend_codes

    number = correlations.dtype.type
    codes = Codes.empty(len(correlations), len(gram), number)
    descend_codes(
        gram, number(shift), correlations, old.indptr, old.indices, old.data, float(penalty), min(cap, len(gram)),
        float(lower), float(upper), moves, accuracy, codes.indices, codes.data, codes.indptr[1:],
    )  # fmt: skip
    return codes.csr(len(gram))
