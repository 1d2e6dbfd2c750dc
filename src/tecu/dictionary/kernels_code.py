"""Parts of compiled kernels, those of the coder first: the argmax, sums of rows, correlations, sorting.

Every coder works on ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0`` for one sample, ``G`` the Gram matrix of the atoms
and ``c`` the sample's correlations with them. A proximal term ``eta/2 ||w - w_prev||^2`` is part of it: ``shift = eta``
is added to the diagonal of ``G``, and the caller adds ``eta w_prev`` to ``c``. Readable twins are in ``plain.py``.

"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import matrix_product, part, routine

BLOCK = 64  # correlations compared at a time in the argmax

ROWS = 8
"""BLAS gets samples in multiples of this, filled up with zeros: what it makes of the last few of another number may
differ in the last bit. So codes in float64 do not depend on which samples are beside them; in float32 that bit may."""


@part
def _largest(c: Any, bits: Any, mask: Any) -> Any:
    """The place of the largest ``|c|`` (or of the largest ``c``, by ``mask``), or -1 if that is not positive.

    Floats of one sign are ordered as their bits read as integers, and integer maxima are what the compiler can
    vectorise; only the winning block is searched for the place.
    """
    integer = bits.dtype.type  # of 32 bits numba makes 64 wherever it may, at a third of the speed
    m = c.size
    whole = m // BLOCK * BLOCK
    best, place = integer(0), 0
    for start in range(0, whole, BLOCK):
        top = integer(0)
        for i in range(BLOCK):
            top = max(top, integer(bits[start + i] & mask))
        if top > best:
            best, place = top, start
    top = integer(0)
    for i in range(whole, m):
        top = max(top, integer(bits[i] & mask))
    if top > best:
        best, place = top, whole
    if best <= 0:
        return -1
    while integer(bits[place] & mask) != best:
        place += 1
    return place


@part
def _subtract_rows(u: Any, start: Any, U: Any, rows: Any, a: Any, t: Any) -> Any:
    """``u = start - sum_{s<t} a[s] U[rows[s]]``, four rows at a time; few loops, which take long to compile."""
    m = u.size
    one = u.dtype.type
    s = t % 2
    a0, r0 = one(0), U[0]  # of an even number, the first loop takes away nothing
    if s == 1:
        a0, r0 = one(a[0]), U[rows[0]]
    for i in range(m):
        u[i] = start[i] - a0 * r0[i]
    if t % 4 >= 2:
        a0, a1 = one(a[s]), one(a[s + 1])
        r0, r1 = U[rows[s]], U[rows[s + 1]]
        for i in range(m):
            u[i] -= a0 * r0[i] + a1 * r1[i]
        s += 2
    while s < t:
        a0, a1, a2, a3 = one(a[s]), one(a[s + 1]), one(a[s + 2]), one(a[s + 3])
        r0, r1, r2, r3 = U[rows[s]], U[rows[s + 1]], U[rows[s + 2]], U[rows[s + 3]]
        for i in range(m):
            u[i] -= a0 * r0[i] + a1 * r1[i] + a2 * r2[i] + a3 * r3[i]
        s += 4


@part
def _inner(a: Any, b: Any) -> Any:
    """``<a, b>`` in float64."""
    total = 0.0
    for f in range(a.size):
        total += np.float64(a[f]) * np.float64(b[f])
    return total


@part
def _misfit(y: Any, D: Any, indices: Any, data: Any, count: Any, r: Any) -> Any:
    """``r = y - D'w``, and its squared length in float64."""
    _subtract_rows(r, y, D, indices, data, count)
    square = 0.0
    for f in range(r.size):
        square += np.float64(r[f]) * np.float64(r[f])
    return square


@routine
def _correlate(gemm: Any, Y: Any, D: Any, first: Any, last: Any, wanted: Any, some: Any, tile: Any) -> Any:
    """``Y D'`` for those samples from ``first`` to ``last`` whose ``wanted`` is negative, one after the other.

    The rows of ``some``, where they are gathered, are a multiple of ``ROWS``; ``tile`` has room for such a multiple.
    """
    count = np.int64(0)
    for p in range(first, last):
        count += wanted[p] < 0
    done, gathered = np.int64(0), np.int64(0)
    if count == last - first and count >= ROWS:
        done = count // ROWS * ROWS
        matrix_product(gemm, Y[first : first + done], D, tile[:done])
    for p in range(first + done, last):
        if wanted[p] < 0:
            for f in range(Y.shape[1]):
                some[gathered, f] = Y[p, f]
            gathered += 1
        if gathered == some.shape[0] or (p == last - 1 and gathered > 0):
            whole = (gathered + ROWS - 1) // ROWS * ROWS
            some[gathered:whole] = 0
            matrix_product(gemm, some[:whole], D, tile[done : done + whole])
            done += gathered
            gathered = np.int64(0)


@part
def _sort(support: Any, w: Any, t: Any) -> Any:
    """Sort the first ``t`` atoms, as CSR wants them, and their coefficients with them."""
    for s in range(1, t):
        j, x, r = support[s], w[s], s
        while r > 0 and support[r - 1] > j:
            support[r], w[r] = support[r - 1], w[r - 1]
            r -= 1
        support[r], w[r] = j, x
