"""Compiled parts of audits and tests: how far codes are from their own prox point, entries of a gradient."""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import Double, Indices, Integers, Matrix, Number, Vector


@compiled
def own_prox_gap(
    slopes: Matrix, indptr: Indices, indices: Indices, data: Vector, old_indptr: Indices, old_indices: Indices,
    old_data: Vector, eta: Number, tau: Double, weight: Double,
) -> Double:  # fmt: skip
    """``||u - prox(u - grad phi(u) / tau)||^2`` of some samples, for the ``prox`` of ``weight ||.||_0``.

    ``phi`` is ``H + eta/2 ||u - old||^2``. On entry ``slopes`` is minus the gradient of ``H`` at ``u``; it is used up.
    """
    limit = 2 * weight * tau  # of the square of tau (u - grad phi / tau)
    nearly = slopes.dtype.type(0.999 * limit)  # what is below that is below the limit in any precision
    total = 0.0
    for p in range(slopes.shape[0]):
        row = slopes[p]
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
