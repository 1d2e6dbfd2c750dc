"""A compiled part of the audit: how far codes are from their own prox point.

This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled


@compiled
def prox_gap(
    indptr: Any, indices: Any, data: Any, old_indptr: Any, old_indices: Any, old_data: Any, first: Any, g: Any,
    eta: Any, tau: Any, weight: Any,
) -> Any:  # fmt: skip
    """``||u - prox(u - grad phi(u) / tau)||^2`` of some samples, for the ``prox`` of ``weight ||.||_0``.

    ``g`` holds minus the gradient of ``H`` at the codes ``u``, samples from ``first`` on, and is used up; ``phi`` adds
    ``eta/2 ||u - old||^2``.
    """
    limit = 2 * weight * tau  # of the square of tau (u - grad phi / tau)
    total = 0.0
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
        largest = row[0] * row[0]
        for j in range(m):
            largest = max(largest, row[j] * row[j])
        if not largest <= limit:  # a NaN counts too
            for j in range(m):
                square = np.float64(row[j]) * row[j]
                if not square <= limit:
                    total += square / (tau * tau)
    return total


@compiled
def differences(after: Any, before: Any) -> Any:
    """``||after||^2 - ||before||^2`` in float64, entry by entry."""
    total = 0.0
    for i in range(after.shape[0]):
        a, b = after[i], before[i]
        for j in range(after.shape[1]):
            total += (np.float64(a[j]) - np.float64(b[j])) * (np.float64(a[j]) + np.float64(b[j]))
    return total
