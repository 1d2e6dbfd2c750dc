"""Compiled parts of audits and tests: how far codes are from their own prox point, entries of a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, part, square_root
from tecu.dictionary.kernels_code import _correlate, _inner
from tecu.kernels.words import Double, Doubles, Indices, Integer, Integers, Matrix, Number, Vector


@part
def _entry(indices: Any, data: Any, begin: Any, end: Any, j: Any) -> Any:
    """The coefficient of the atom ``j`` in a sorted code, or zero."""
    for s in range(begin, end):
        if indices[s] >= j:
            return np.float64(data[s]) if indices[s] == j else 0.0
    return 0.0


@compiled
def own_prox_gap(
    gemm: Integer, misfits: Matrix, squares: Doubles, D: Matrix, longest: Double, indptr: Indices, indices: Indices,
    data: Vector, old_indptr: Indices, old_indices: Indices, old_data: Vector, eta: Number, tau: Double,
    weight: Double, loud: Indices, some: Matrix, slopes: Matrix,
) -> Double:  # fmt: skip
    """``||u - prox(u - grad phi(u) / tau)||^2`` of some samples, for the ``prox`` of ``weight ||.||_0``.

    ``phi`` is ``H + eta/2 ||u - old||^2``, and ``-grad H`` the products of the ``misfits``, whose squared lengths are
    ``squares``, with the atoms, of which none is longer than ``longest``. Where a misfit is so short that no atom can
    come in, the products with the atoms of the code are enough. The last three are scratch: an integer for each sample,
    and what :func:`tecu.dictionary.coding.room_for_correlations` gives for all of them.
    """
    limit = 2 * weight * tau  # of the square of tau (u - grad phi / tau)
    nearly = slopes.dtype.type(0.999 * limit)  # what is below that is below the limit in any precision
    total = 0.0
    for p in range(misfits.shape[0]):
        pull = 0.0
        for s in range(old_indptr[p], old_indptr[p + 1]):
            pull = max(pull, abs(np.float64(old_data[s])))
        reach = longest * square_root(squares[p]) + eta * pull
        if not reach * reach <= 0.99 * limit:  # NaN, too
            loud[p] = -1
            continue
        loud[p] = 0
        for s in range(indptr[p], indptr[p + 1]):
            u, j = np.float64(data[s]), indices[s]
            slope = _inner(misfits[p], D[j]) - eta * u
            slope += eta * _entry(old_indices, old_data, old_indptr[p], old_indptr[p + 1], j)
            x = tau * u + slope
            total += slope * slope / (tau * tau) if x * x > limit else u * u
    _correlate(gemm, misfits, D, np.int64(0), misfits.shape[0], loud, some, slopes)
    place = np.int64(0)
    for p in range(misfits.shape[0]):
        if loud[p] == 0:
            continue
        row = slopes[place]
        place += 1
        for s in range(old_indptr[p], old_indptr[p + 1]):
            row[old_indices[s]] += eta * old_data[s]
        for s in range(indptr[p], indptr[p + 1]):
            u = np.float64(data[s])
            slope = np.float64(row[indices[s]]) - eta * u
            x = tau * u + slope
            total += slope * slope / (tau * tau) if x * x > limit else u * u
            row[indices[s]] = 0
        steep = 0
        for j in range(row.size):
            steep += not row[j] * row[j] <= nearly  # NaN, too
        if steep > 0:
            for j in range(row.size):
                square = np.float64(row[j]) * row[j]
                if not square <= limit:
                    total += square / (tau * tau)
    return total


@compiled
def products_at(left: Matrix, right: Matrix, rows: Integers, columns: Integers, products: Vector) -> None:
    """``<left_i, right_j>`` for some pairs ``(i, j)``."""
    for k in range(rows.size):
        a, b = left[rows[k]], right[columns[k]]
        total = 0.0
        for f in range(a.size):
            total += np.float64(a[f]) * np.float64(b[f])
        products[k] = total
