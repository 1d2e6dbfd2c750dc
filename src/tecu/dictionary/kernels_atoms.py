"""Compiled parts of the dictionary update: totals ``A = W'W``, ``B = W'Y`` from sparse codes, and the column sweep.

Atoms and samples are rows here. Readable twins are in ``plain.py``. This module imports numba: import it lazily.
"""

from __future__ import annotations

import numpy as np
from numba import njit

RELAXED = {"contract", "reassoc", "nsz", "arcp"}


@njit(nogil=True, cache=True, fastmath=RELAXED)
def add_totals(indptr, indices, data, Y, sign, A, B):  # type: ignore[no-untyped-def]
    """``A += sign W'W`` and ``B += sign W'Y`` for CSR codes ``W`` (samples x atoms) and ``Y`` (samples x features)."""
    n = Y.shape[1]
    for p in range(Y.shape[0]):
        y = Y[p]
        for s in range(indptr[p], indptr[p + 1]):
            i = indices[s]
            w = sign * data[s]
            for t in range(indptr[p], indptr[p + 1]):
                A[i, indices[t]] += w * data[t]
            row = B[i]
            for f in range(n):
                row[f] += w * y[f]


@njit(nogil=True, cache=True, fastmath=RELAXED)
def sweep_block(D, previous, U, A, first, eta, ball):  # type: ignore[no-untyped-def]
    """Exact minimisation over the atoms ``first, first + 1, ...`` one after the other.

    On entry ``U = B_J - A_J D`` for the block ``J``; the atoms of ``D`` in ``J`` are replaced, and ``U`` is used up.
    """
    size, n = U.shape
    change = np.empty(n, D.dtype)
    for r in range(size):
        j = first + r
        own = A[j, j]
        d = D[j]
        old = previous[j]
        u = U[r]
        square = 0.0
        for f in range(n):
            u[f] += own * d[f] + eta * old[f]
            square += u[f] * u[f]
        length = np.sqrt(square)
        if ball:
            curvature = own + eta
            if curvature <= 0:
                continue
            length = max(length, curvature)
        if length <= 0:
            continue
        scale = 1 / length
        for f in range(n):
            v = u[f] * scale
            change[f] = v - d[f]
            d[f] = v
        for s in range(r + 1, size):
            a = A[first + s, j]
            if a != 0:
                row = U[s]
                for f in range(n):
                    row[f] -= a * change[f]
