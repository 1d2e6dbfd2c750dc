"""Compiled parts of audits and tests: how far codes are from their own prox point, entries of a gradient.

This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.dictionary.kernels_code import _largest


@compiled
def gap_and_change(
    indptr: Any, indices: Any, data: Any, old_indptr: Any, old_indices: Any, old_data: Any, first: Any, g: Any,
    bits: Any, mask: Any, eta: Any, tau: Any, weight: Any, rest: Any, old_rest: Any,
) -> Any:  # fmt: skip
    """``||u - prox(u - grad phi(u) / tau)||^2`` of some samples, for the ``prox`` of ``weight ||.||_0``; their change.

    ``g`` holds minus the gradient of ``H`` at the codes ``u``, samples from ``first`` on, and is used up; ``bits`` is
    the same memory as integers, ``mask`` all of their bits but the sign. ``phi`` adds
    ``eta/2 ||u - old||^2``. The change is ``||rest||^2 - ||old_rest||^2``, entry by entry.
    """
    limit = 2 * weight * tau  # of the square of tau (u - grad phi / tau)
    total, change = 0.0, 0.0
    m = g.shape[1]
    for p in range(g.shape[0]):
        row = g[p]
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
            for j in range(m):
                square = np.float64(row[j]) * row[j]
                if not square <= limit:
                    total += square / (tau * tau)
        after, before = rest[p], old_rest[p]
        for f in range(after.size):
            change += (np.float64(after[f]) - np.float64(before[f])) * (np.float64(after[f]) + np.float64(before[f]))
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
