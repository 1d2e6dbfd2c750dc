"""Compiled parts of the dictionary update: totals ``A = W'W``, ``B = W'Y`` from sparse codes, and the column sweep.

Atoms and samples are rows here. Readable twins are in ``plain.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, part, routine, square_root, subtract_product, written_out
from tecu.dictionary.kernels_code import _misfit, _subtract_rows
from tecu.dictionary.workers import Workers
from tecu.kernels.words import Double, DoubleMatrix, Doubles, Flag, Indices, Integer, Matrix, Number, Totals, Vector

Changes = Sequence[tuple[Any, Any, float]]

SWEEP_BLOCK = 96
"""Atoms between two matrix products of a column sweep."""

SPARSE_TOTALS, ROWS_SEEN = 0.2, 32
"""Totals of which less than this share is filled, by so many of their rows, are swept over entry by entry."""

LEAST_TOTAL = 2.0**-40
"""Totals of at least this size, and at most its inverse, are taken as they are."""


@part
def _add_sample(
    begin: Any, end: Any, indices: Any, data: Any, y: Any, weight: Any, fold: Any, A: Any, B: Any, first: Any, last: Any
) -> Any:
    """Add the code from ``begin`` to ``end`` of one sample to the rows ``first`` to ``last`` of ``A`` and ``B``."""
    twice = 2 if fold else 1
    for s in range(begin, end):
        if not first <= indices[s] < last:
            continue
        w = weight * data[s]
        total = A[indices[s]]
        total[indices[s]] += w * data[s]
        for t in range(s + 1, end):
            total[indices[t]] += twice * w * data[t]
        if not fold:
            for t in range(begin, s):
                total[indices[t]] += w * data[t]
        row = B[indices[s]]
        for f in range(y.size):
            row[f] += w * y[f]


@compiled
def _add_rows(
    indptr: Indices, indices: Indices, data: Vector, Y: Matrix, weight: Double, fold: Flag, A: Totals, B: Totals,
    first: Integer, end: Integer,
) -> None:  # fmt: skip
    for p in range(Y.shape[0]):
        _add_sample(indptr[p], indptr[p + 1], indices, data, Y[p], weight, fold, A, B, first, end)


def add_totals(changes: Changes, A: Any, B: Any, team: Workers | None = None, *, fold: bool = True) -> None:
    """``A += weight W'W`` and ``B += weight W'Y`` for each of ``(W, Y, weight)``.

    ``W`` are CSR codes, samples x atoms, with sorted indices, and ``Y`` is samples x features. If it is to ``fold``,
    the symmetric ``W'W`` is folded into its upper triangle, off-diagonal entries doubled: half the scattered writes,
    and ``<W'W, G> = <folded, G>`` for a symmetric ``G``. Each thread has some atoms, so that the sums are the same for
    any number of them.
    """

    (team or Workers(1)).map(partial(add_totals_of, changes, A, B, fold), len(A))


def add_totals_of(changes: Changes, A: Any, B: Any, fold: bool, atoms: slice) -> None:
    """:func:`add_totals` for some atoms, whose rows of ``A`` and ``B`` are written and no others."""
    for codes, Y, weight in changes:
        _add_rows(codes.indptr, codes.indices, codes.data, Y, float(weight), fold, A, B, atoms.start, atoms.stop)


@compiled
def unfold(folded: DoubleMatrix, A: Matrix, first: Integer, end: Integer) -> None:
    """The symmetric matrix behind a folded one, tile by tile: the rows ``first`` to ``end`` of the upper triangle."""
    m = folded.shape[0]
    half = folded.dtype.type(0.5)
    for r in range(first, end, 32):
        for c in range(r, m, 32):
            for i in range(r, min(r + 32, end)):
                for j in range(max(i + 1, c), min(c + 32, m)):
                    x = folded[i, j] * half
                    A[i, j] = x
                    A[j, i] = x
        for i in range(r, min(r + 32, end)):
            A[i, i] = folded[i, i]


@compiled
def inner_product(left: DoubleMatrix, right: Matrix, upper: Flag, first: Integer, end: Integer) -> Double:
    """``<left, right>`` of the rows ``first`` to ``end``, or of their ``upper`` triangle, in float64."""
    total = 0.0
    for i in range(first, end):
        a, b = left[i], right[i]
        for j in range(i if upper else 0, left.shape[1]):
            total += np.float64(a[j]) * np.float64(b[j])
    return total


@compiled
def misfits(
    indptr: Indices, indices: Indices, data: Vector, Y: Matrix, D: Matrix, rows: Matrix, squares: Doubles
) -> None:
    """``||y - D'w||^2`` of each sample in float64, for sorted sparse codes.

    ``rows`` gets the misfits themselves where it has room for all of them; with one row it is scratch.
    """
    last = rows.shape[0] - 1
    for p in range(Y.shape[0]):
        begin = indptr[p]
        count = np.int64(indptr[p + 1] - begin)
        squares[p] = _misfit(Y[p], D, indices[begin:], data[begin:], count, rows[min(p, last)])


@part
def _share_filled(A: Any, first: Any, end: Any) -> Any:
    step = max(1, (end - first) // ROWS_SEEN)
    count, size = np.int64(0), np.int64(0)
    for i in range(first, end, step):
        row = A[i]
        for j in range(row.size):
            count += row[j] != 0
        size += row.size
    return count / size if size > 0 else 1.0  # no atoms are none to go through entry by entry


@compiled
def share_filled(A: Matrix, first: Integer, end: Integer) -> Double:
    """The share of the entries that are not zero in the rows from ``first`` to ``end``, by some of them."""
    return _share_filled(A, first, end)


@part
def _unit_of(B: Any, first: Any, end: Any) -> Any:
    """The power of two that brings the largest ``|B_ij|`` in the rows from ``first`` to ``end`` near 1; mostly 1."""
    largest = B.dtype.type(0)
    for i in range(first, end):
        row = B[i]
        for j in range(row.size):
            largest = max(largest, abs(row[j]))
    unit, size = 1.0, np.float64(largest)
    if LEAST_TOTAL <= size <= 1.0 / LEAST_TOTAL or size <= 0 or not size < np.inf:
        return unit
    while size * unit >= 2.0:  # some hundred times at most; powers would ask for a library that may not be there
        unit *= 0.5
    while size * unit < 1.0:
        unit *= 2.0
    return unit


@compiled
def sweep_atoms(
    gemm: Integer, D: Matrix, previous: Matrix, first: Integer, end: Integer, A: Matrix, B: Matrix, eta: Number,
    ball: Flag, sparse: Flag, slopes: Matrix, changes: Matrix, used: Indices, weights: Vector,
) -> Double:  # fmt: skip
    """Exact minimisation over the atoms from ``first`` to ``end`` one after the other; returns by how much it descends.

    As many atoms as ``slopes`` has rows share one product ``A_J D``, by BLAS at ``gemm``; with ``sparse`` that is
    summed atom by atom, over the entries of ``A`` that are not zero. On the sphere the objective is ``-<v, d>`` in one
    atom, on the ball ``(A_jj + eta)/2 ||d||^2 - <v, d>``. The last four are scratch: by atoms of a block (the second
    with ``sparse`` one) and features, finite; ``m + 1`` and ``m`` numbers.
    """
    return _sweep_range(gemm, D, previous, first, end, A, B, eta, ball, sparse, slopes, changes, used, weights)


@routine
def _sweep_range(
    gemm: Any, D: Any, previous: Any, first: Any, end: Any, A: Any, B: Any, eta: Any, ball: Any, sparse: Any,
    slopes: Any, changes: Any, used: Any, weights: Any,
) -> Any:  # fmt: skip
    unit = _unit_of(B, first, end)
    descent = 0.0
    size = slopes.shape[0]
    for s in range(used.size):
        used[s] = s
    for begin in range(first, end, size):
        U = slopes[: min(size, end - begin)]
        if not sparse:
            for r in range(U.shape[0]):
                for f in range(U.shape[1]):
                    U[r, f] = B[begin + r, f]
            subtract_product(gemm, A[begin : begin + U.shape[0]], D, U)
        descent += _sweep_block(D, previous, begin, U, A, B, eta, ball, sparse, unit, changes, used, weights)
    return descent / unit


@written_out
def _sweep_block(
    D: Any, previous: Any, first: Any, U: Any, A: Any, B: Any, eta: Any, ball: Any, sparse: Any, unit: Any,
    changes: Any, used: Any, weights: Any,
) -> Any:  # fmt: skip
    """The same for a block of atoms. On entry ``U = B_J - A_J D``, unless ``sparse``; it is used up.

    Lengths are taken in ``unit``, in which their squares stay in range, and so is the descent.
    """
    size, n = U.shape
    m = D.shape[0]
    descent = 0.0
    for r in range(size):
        totals = A[first + r]
        own = totals[first + r]
        curvature = own + eta
        d = D[first + r]
        old = previous[first + r]
        u = U[r]
        if sparse:
            start, rows, count = B[first + r], D, np.int64(0)
            for s in range(m):
                used[count] = s
                count += totals[s] != 0
            for s in range(count):
                weights[s] = totals[used[s]]
        else:
            start, rows, count = u, changes, np.int64(r)
            for s in range(r):
                weights[s] = totals[first + s]
        _subtract_rows(u, start, rows, used, weights, count)
        change = changes[0 if sparse else r]
        square = 0.0
        for f in range(n):
            u[f] += own * d[f] + eta * old[f]
            x = np.float64(u[f]) * unit
            square += x * x
        length = square_root(square)
        bend = np.float64(curvature) * unit
        if ball:
            length = max(length, bend)
        if length <= 0 or (ball and curvature <= 0):
            change[:] = 0
            continue
        scale = unit / length
        moved, outward = 0.0, 0.0
        for f in range(n):
            v = D.dtype.type(np.float64(u[f]) * scale)
            change[f] = v - d[f]
            moved += change[f] * change[f]
            outward += change[f] * v
            d[f] = v
        # <v, change> with v = length * (the new atom), less the quadratic part; exact in the small numbers.
        if ball:
            descent += (length - bend) * outward + 0.5 * bend * moved
        else:
            descent += 0.5 * length * moved
    return descent
