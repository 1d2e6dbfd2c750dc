"""Sparse coding and column sweeps for whole batches: the compiled kernels behind plain calls.

Samples and atoms are rows: ``Y`` samples x features, ``D`` atoms x features, codes samples x atoms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tecu.dictionary.workers import Workers

Matrix = np.ndarray[Any, Any]

PIVOT = 1e-3
"""An atom whose squared distance to the span of those already chosen is below this adds nothing but noise."""

LARGE_TOTALS = 40  # totals between 2^-40 and 2^40 are taken as they are
SWEEP_BLOCK, BLOCKS_A_MEETING = 96, 3
"""Atoms between two matrix products of a column sweep, and such blocks between two meetings of threads."""

TILE = 1 << 18
"""Correlations at a time."""

SPARSE_TOTALS, ROWS_SEEN = 0.2, 32
"""Totals with fewer entries than this share, by so many of their rows, are swept over entry by entry."""

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


def sign_mask(dtype: Any, positive: bool) -> Any:
    """What the argmax of a kernel keeps of a float's bits: all but the sign, or all when codes must be positive."""
    integer = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    return integer(-1) if positive else integer(np.iinfo(integer).max)


def greedy(
    correlations: Matrix,
    gram: Matrix,
    *,
    stop: float,
    penalty: float = 0.0,
    cap: int,
    positive: bool = False,
) -> Codes:
    """Orthogonal matching pursuit for each row of ``correlations`` (destroyed).

    A path ends at ``cap`` atoms or when the next one lowers ``1/2 ||y - D'w||^2`` by no more than ``stop``; of the
    path, the
    prefix with the least ``1/2 ||y - D'w||^2 + penalty ||w||_0`` is kept.
    """
    none = _no_codes(len(correlations), correlations.dtype)
    return _coded(correlations, gram, none, stop, penalty, cap, 0.0, 2, positive, False)[0]


@lru_cache(maxsize=16)
def _no_codes(samples: int, dtype: Any) -> tuple[Matrix, Matrix, Matrix]:
    return np.zeros(samples + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, dtype)


def _coded(
    correlations: Matrix,
    gram: Matrix,
    old: tuple[Matrix, Matrix, Matrix],
    stop: float,
    penalty: float,
    cap: int,
    shift: float,
    restart: int,
    positive: bool,
    polished: bool,
) -> tuple[Codes, float, int]:
    """The kernel's codes from old ones (``indptr``, ``indices``, ``data``), their change of ``q``, how many settled."""
    from tecu.dictionary.kernels_polish import codes_of

    number = correlations.dtype.type
    cap = max(1, min(cap, len(gram)))
    codes = Codes.empty(len(correlations), cap, number)
    work = np.empty(len(gram), number)
    mask = sign_mask(number, positive)
    change, settled = codes_of(
        gram, number(shift), correlations, *old, mask, float(stop), float(penalty), cap, PIVOT, restart, polished,
        work, work.view(mask.dtype), np.empty((cap + 4, cap)), np.empty((2, cap), np.int32),
        codes.indices, codes.data, codes.indptr[1:],
    )  # fmt: skip
    return codes, float(change), int(settled)


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
    ``q(w) = 1/2 w'Gw - c'w + shift/2 ||w - old||^2 + penalty ||w||_0``, as many samples at a time as keeps their
    correlations in the cache. Returns the codes, their change of ``q`` and how many are not settled.
    """
    height = tile_height(len(D))
    room = np.empty((min(height, rows.stop - rows.start), len(D)), D.dtype)
    parts, change, unsettled = [], 0.0, 0
    for first in range(rows.start, rows.stop, height):
        y = Y[first : min(first + height, rows.stop)]
        k = len(y)
        none = _no_codes(k, D.dtype)
        before = none if old is None else (old.indptr[first : first + k + 1], old.indices, old.data)
        codes, moved, settled = _coded(
            np.matmul(y, D.T, out=room[:k]), gram, before, penalty, penalty, cap, shift, restart, False, True
        )
        parts.append(codes.trimmed())
        change, unsettled = change + moved, unsettled + k - settled
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


def sweep(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    team: Workers = ALONE,
) -> float:
    """One pass of exact minimisation over the atoms, in place; returns by how much the objective fell.

    Atom ``j`` becomes the minimiser of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - previous||^2`` over the unit sphere (or
    ball), the others held. Blocks of atoms share one matrix product: the same iterates, faster. Threads take several
    blocks at a time, so that they meet less often.
    """
    from tecu.dictionary.kernels_atoms import sweep_block

    exponent = int(np.frexp(np.max(np.abs(B), initial=0.0))[1])
    if abs(exponent) > LARGE_TOTALS:  # lengths would leave the range of float32; a power of two changes nothing else
        A, B = (np.ldexp(total, -exponent) for total in (A, B))
        return float(np.ldexp(sweep(D, previous, A, B, math.ldexp(eta, -exponent), ball, team), exponent))
    m, n = D.shape
    few = has_few_entries(A)
    changes = np.zeros((1 if few else SWEEP_BLOCK, n), D.dtype)
    scratch = changes, np.arange(m + 1, dtype=np.int32), np.empty(m, D.dtype)
    eta = D.dtype.type(eta)
    if few:
        return float(sweep_block(D, previous, 0, np.empty_like(B), A, B, eta, ball, True, *scratch))
    size = SWEEP_BLOCK * (1 if team.count == 1 else BLOCKS_A_MEETING)
    slopes, before = np.empty((size, n), D.dtype), np.empty((size, n), D.dtype)
    descent = 0.0
    for first in range(0, m, size):
        end = min(first + size, m)
        U = slopes[: end - first]
        team.map(partial(_slopes, D, A[first:end], B[first:end], U), n)
        before[: end - first] = D[first:end]
        for a in range(first, end, SWEEP_BLOCK):
            b = min(a + SWEEP_BLOCK, end)
            descent += sweep_block(D, previous, a, U[a - first : b - first], A, B, eta, ball, False, *scratch)
            if b < end:  # what the later blocks of this meeting have to know of it
                U[b - first :] -= A[b:end, a:b] @ (D[a:b] - before[a - first : b - first])
    return descent


def has_few_entries(A: Matrix) -> bool:
    """Whether a column sweep on such totals goes entry by entry, in one thread."""
    some = A[:: max(1, len(A) // ROWS_SEEN)] != 0  # truth values: to count floats takes eight times as long
    return bool(np.count_nonzero(some) < SPARSE_TOTALS * some.size)


def _slopes(D: Matrix, A: Matrix, B: Matrix, U: Matrix, columns: slice) -> None:
    """``U = B - A D`` for some features."""
    product = np.matmul(A, D[:, columns], out=U[:, columns])
    np.subtract(B[:, columns], product, out=product)
