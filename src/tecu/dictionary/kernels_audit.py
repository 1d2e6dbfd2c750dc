"""Compiled parts of audits and tests: how far codes are from their own prox point, entries of a gradient.

This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.dictionary.kernels_code import _largest, _subtract_rows


@compiled
def gap_and_change(
    Y: Any, D: Any, indptr: Any, indices: Any, data: Any, old_indptr: Any, old_indices: Any, old_data: Any,
    eta: Any, tau: Any, weight: Any, mask: Any, tile: Any, bits: Any, rests: Any, stride: Any, some: Any,
) -> Any:  # fmt: skip
    """``||u - prox(u - grad phi(u) / tau)||^2`` of some samples, for the ``prox`` of ``weight ||.||_0``; their change.

    ``phi`` is ``1/2 ||Y - u D||^2 + eta/2 ||u - old||^2``, the change that of ``||Y - u D||^2`` from the ``old`` codes
    on, entry by entry. ``indptr`` and ``old_indptr`` begin with the first of the samples. The gradient is made for as
    many samples at a time as ``tile`` has rows; ``bits`` is the same memory as integers, ``mask`` all of their bits but
    the sign. ``rests`` is scratch, twice as many rows of features. ``some`` gets the old misfits ``Y - old D`` of every
    ``stride``-th sample.
    """
    limit = 2 * weight * tau  # of the square of tau (u - grad phi / tau)
    total, change = 0.0, 0.0
    samples, n = Y.shape
    height = tile.shape[0]
    for first in range(0, samples, height):
        size = min(height, samples - first)
        for p in range(size):
            begin, old_begin = indptr[first + p], old_indptr[first + p]
            length, old_length = indptr[first + p + 1] - begin, old_indptr[first + p + 1] - old_begin
            rest, old_rest = rests[p], rests[height + p]
            _subtract_rows(rest, Y[first + p], D, indices[begin:], data[begin:], np.int64(length))
            _subtract_rows(
                old_rest, Y[first + p], D, old_indices[old_begin:], old_data[old_begin:], np.int64(old_length)
            )
            for f in range(n):
                after, before = np.float64(rest[f]), np.float64(old_rest[f])
                change += (after - before) * (after + before)
            if (first + p) % stride == 0:
                for f in range(n):
                    some[(first + p) // stride, f] = old_rest[f]
        np.dot(rests[:size], D.T, tile[:size])
        for p in range(size):
            row = tile[p]  # minus the gradient of H
            for s in range(old_indptr[first + p], old_indptr[first + p + 1]):
                row[old_indices[s]] += eta * old_data[s]
            for s in range(indptr[first + p], indptr[first + p + 1]):
                u = np.float64(data[s])
                slope = np.float64(row[indices[s]]) - eta * u
                x = tau * u + slope
                total += slope * slope / (tau * tau) if x * x > limit else u * u
                row[indices[s]] = 0
            j = _largest(row, bits[p], mask)  # a NaN is larger than all numbers
            if j >= 0 and not np.float64(row[j]) * row[j] <= limit:
                for j in range(row.size):
                    square = np.float64(row[j]) * row[j]
                    if not square <= limit:
                        total += square / (tau * tau)
    return total, change


@compiled
def products_at(left: Any, right: Any, rows: Any, columns: Any, products: Any) -> Any:
    """``<left_i, right_j>`` for some pairs ``(i, j)``."""
    for k in range(rows.size):
        a, b = left[rows[k]], right[columns[k]]
        total = 0.0
        for f in range(a.size):
            total += np.float64(a[f]) * np.float64(b[f])
        products[k] = total
