"""Parts of the compiled coders: greedy pursuit on the Gram matrix, its argmax, sorting.

Every coder works on ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0`` for one sample, ``G`` the Gram matrix of the atoms
and ``c`` the sample's correlations with them. A proximal term ``eta/2 ||w - w_prev||^2`` is part of it: ``shift = eta``
is added to the diagonal of ``G``, and the caller adds ``eta w_prev`` to ``c``. Readable twins are in ``plain.py``.
This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import part

BLOCK = 64  # correlations compared at a time in the argmax


@part
def _largest(c: Any, bits: Any, mask: Any) -> Any:
    """The place of the largest ``|c|`` (or of the largest ``c``, by ``mask``), and whether it is positive.

    Floats of one sign are ordered as their bits read as integers, and integer maxima are what the compiler can
    vectorise; only the winning block is searched for the place.
    """
    m = c.size
    best, best_block = mask & 0, 0
    for start in range(0, m, BLOCK):
        top = mask & 0
        for i in range(start, min(start + BLOCK, m)):
            v = bits[i] & mask
            top = max(top, v)
        if top > best:
            best, best_block = top, start
    if best <= 0:
        return -1
    for i in range(best_block, min(best_block + BLOCK, m)):
        if bits[i] & mask == best:
            return i
    return -1


@part
def _subtract_rows(u: Any, U: Any, rows: Any, a: Any, t: Any) -> Any:
    """``u -= sum_{s<t} a[s] U[rows[s]]``, four rows at a time."""
    m = u.size
    one = u.dtype.type
    s = 0
    while s + 4 <= t:
        a0, a1, a2, a3 = one(a[s]), one(a[s + 1]), one(a[s + 2]), one(a[s + 3])
        r0, r1, r2, r3 = U[rows[s]], U[rows[s + 1]], U[rows[s + 2]], U[rows[s + 3]]
        for i in range(m):
            u[i] -= a0 * r0[i] + a1 * r1[i] + a2 * r2[i] + a3 * r3[i]
        s += 4
    while s < t:
        a0 = one(a[s])
        r0 = U[rows[s]]
        for i in range(m):
            u[i] -= a0 * r0[i]
        s += 1


@part
def _greedy_one(
    G: Any,
    shift: Any,
    c: Any,
    bits: Any,
    mask: Any,
    stop: Any,
    penalty: Any,
    cap: Any,
    floor: Any,
    U: Any,
    R: Any,
    b: Any,
    order: Any,
    inside: Any,
    chosen: Any,
) -> Any:
    """Greedy path of one sample; ``chosen`` gets the atoms. Returns the length with the least ``q`` on the path.

    ``order`` is 0, 1, 2, ...; ``inside`` is scratch.
    """
    m = c.size
    t = best_t = np.int64(0)  # a plain 0 has a type of its own, for which every part is compiled once more
    value, best_value = 0.0, 0.0
    while t < cap:
        j = _largest(c, bits, mask)
        if j < 0:
            break
        d = G[j, j] + shift
        for s in range(t):
            a = U[s, j]
            R[s, t] = a
            inside[s] = a
            d -= a * a
        if d < floor:
            break
        gain = 0.5 * c[j] * c[j] / d
        if gain <= stop:
            break
        root = np.sqrt(d)
        scale = 1 / root
        u = U[t]
        row = G[j]
        for i in range(m):
            u[i] = row[i]
        _subtract_rows(u, U, order, inside, t)
        step = c[j] * scale
        total = step * scale
        for i in range(m):
            c[i] -= total * u[i]
            u[i] *= scale
        u[j] = root
        R[t, t] = root
        b[t] = step
        chosen[t] = j
        t += 1
        for s in range(t):
            c[chosen[s]] = 0
        value += penalty - gain
        if value < best_value:
            best_value, best_t = value, t
    return best_t


@part
def _back_substitute(R: Any, b: Any, t: Any, w: Any) -> Any:
    """``w`` with ``R w = b``, ``R`` upper triangular: the coefficients at the end of a greedy path."""
    for r in range(t - 1, -1, -1):
        total = np.float64(b[r])
        for s in range(r + 1, t):
            total -= R[r, s] * w[s]
        w[r] = total / R[r, r]


@part
def _sort(support: Any, w: Any, t: Any) -> Any:
    """Sort the first ``t`` atoms, as CSR wants them, and their coefficients with them."""
    for s in range(1, t):
        j, x, r = support[s], w[s], s
        while r > 0 and support[r - 1] > j:
            support[r], w[r] = support[r - 1], w[r - 1]
            r -= 1
        support[r], w[r] = j, x
