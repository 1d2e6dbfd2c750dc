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
SWEEP_BLOCK = 64
"""Atoms between two matrix products of a column sweep."""

TILE = 1 << 17
"""Correlations at a time."""

BLOCKS_A_MEETING = 3
"""Such blocks between two meetings of threads."""

ALONE = Workers(1)


@dataclass(frozen=True)
class Codes:
    """Sparse rows: row ``i`` has the entries ``values[starts[i] : starts[i + 1]]`` at ``indices[...]``, sorted."""

    starts: Matrix
    indices: Matrix
    values: Matrix

    @classmethod
    def empty(cls, samples: int, capacity: int, dtype: Any) -> Codes:
        """Room for ``capacity`` entries a row."""
        room = samples * capacity
        return cls(np.zeros(samples + 1, np.int32), np.empty(room, np.int32), np.empty(room, dtype))

    def csr(self, n_components: int) -> Any:
        """The same codes as a CSR array."""
        from scipy.sparse import csr_array

        own = self if len(self.values) == self.starts[-1] else self.trimmed()
        codes = csr_array((own.values, own.indices, own.starts), shape=(len(own.starts) - 1, n_components))
        codes.has_canonical_format = True
        return codes

    @staticmethod
    def stacked(parts: Sequence[Codes]) -> Codes:
        """The rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        counts = np.array([0, *(part.starts[-1] for part in parts)])
        offsets = np.cumsum(counts).astype(np.int32)
        starts = [part.starts[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
        indices = np.concatenate([part.indices[: part.starts[-1]] for part in parts])
        values = np.concatenate([part.values[: part.starts[-1]] for part in parts])
        return Codes(np.concatenate([np.zeros(1, np.int32), *starts]), indices, values)

    def trimmed(self) -> Codes:
        """The same without room for more."""
        count = int(self.starts[-1])
        return Codes(self.starts, self.indices[:count].copy(), self.values[:count].copy())

    def clipped(self, lower: float, upper: float) -> Codes:
        """Cut to bounds; what becomes zero goes."""
        if lower == -np.inf and upper == np.inf:
            return self
        values = np.clip(self.values[: self.starts[-1]], lower, upper)
        used = values != 0
        starts = np.concatenate([[0], np.cumsum(used)])[self.starts].astype(np.int32)
        return Codes(starts, self.indices[: len(used)][used], values[used])


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
        work, work.view(mask.dtype), codes.indices, codes.values, codes.starts[1:],
    )  # fmt: skip
    return codes, float(change), int(settled)


@dataclass(frozen=True)
class Polished:
    """Codes, and what the kernel knows of them: ``q(new) - q(old)``, how many are not settled."""

    codes: Any
    change: float
    unsettled: int


def polish(
    correlations: Matrix,
    gram: Matrix,
    old: Any,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    restart: int = 1,
) -> Polished:
    """Refit, drop and insert from the supports of ``old`` (CSR) and from none; the better code of each sample.

    It minimises ``q(w) = 1/2 w'Gw - c'w + shift/2 ||w - old||^2 + penalty ||w||_0``. ``correlations`` is changed.
    """
    codes, change, settled = _coded(
        correlations, gram, (old.indptr, old.indices, old.data), penalty, penalty, cap, shift, restart, False, True
    )
    return Polished(codes.csr(len(gram)), change, len(correlations) - settled)


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
    """:func:`polish` for some rows of the samples ``Y``, as many at a time as keeps their correlations in the cache.

    Returns the codes, their change of ``q`` and how many are not settled. ``old`` is CSR, or ``None`` for no codes.
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
        float(lower), float(upper), moves, accuracy, codes.indices, codes.values, codes.starts[1:],
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
    folded: bool = False,
) -> float:
    """One pass of exact minimisation over the atoms, in place; returns by how much the objective fell.

    Atom ``j`` becomes the minimiser of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - previous||^2`` over the unit sphere (or
    ball), the others held. Blocks of atoms share one matrix product: the same iterates, faster. Threads take several
    blocks at a time, so that they meet less often. ``folded`` says that ``A`` is folded into its upper triangle.
    """
    from tecu.dictionary.kernels_atoms import sweep_block

    exponent = int(np.frexp(np.max(np.abs(B), initial=0.0))[1])
    if abs(exponent) > LARGE_TOTALS:  # lengths would leave the range of float32; a power of two changes nothing else
        A, B = (np.ldexp(total, -exponent) for total in (A, B))
        return float(np.ldexp(sweep(D, previous, A, B, math.ldexp(eta, -exponent), ball, team, folded), exponent))
    m, number = len(D), D.dtype.type
    size = SWEEP_BLOCK * (1 if team.count == 1 else BLOCKS_A_MEETING)
    descent = 0.0
    for first in range(0, m, size):
        end = min(first + size, m)
        if folded:
            half = 0.5 * A[first:end, first:end]
            inside, place = half + half.T, 0
        else:
            inside, place = A, first
        U = team.by_columns(partial(_slopes, D, A, B, inside, slice(first, end), folded), D)
        before = D[first:end].copy()
        for a in range(0, end - first, SWEEP_BLOCK):
            b = min(a + SWEEP_BLOCK, end - first)
            descent += sweep_block(D, previous, first + a, U[a:b], inside, place + a, number(eta), ball)
            if b < end - first:  # what the later blocks of this meeting have to know of it
                U[b:] -= inside[place + b : place + end - first, place + a : place + b] @ (
                    D[first + a : first + b] - before[a:b]
                )
    return descent


def _slopes(D: Matrix, A: Matrix, B: Matrix, inside: Matrix, J: slice, folded: bool, columns: slice) -> Matrix:
    """``B_J - A_J D`` for some features."""
    d = D[:, columns]
    product: Matrix
    if not folded:
        product = A[J] @ d
    else:  # off the diagonal a folded matrix holds twice the entry, once
        product = A[: J.start, J].T @ d[: J.start]
        product += A[J, J.stop :] @ d[J.stop :]
        product *= D.dtype.type(0.5)
        product += inside @ d[J]
    np.subtract(B[J, columns], product, out=product)
    return product
