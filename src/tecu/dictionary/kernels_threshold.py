"""The compiled prox-linear step of sparse codes under ``penalty ||w||_0``.

Its readable twin is ``terms.L0.prox(w - gradient / gamma, 1 / gamma)``.
"""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import BitMatrix, Bits, BitVector, Doubles, Indices, Integer, Matrix, Number, Vector

BLOCK = 64  # gradient entries compared at a time


@compiled
def hard_step(
    starts: Indices,
    old: Indices,
    old_values: Vector,
    first: Integer,
    gradient: Matrix,
    bits: BitMatrix,
    mask: Bits,
    least: Bits,
    scale: Number,
    threshold: Number,
    indices: Indices,
    values: Vector,
    ends: Indices,
    slopes: Vector,
    tops: BitVector,
    found: Doubles,
) -> Integer:
    """``w + scale gradient`` where it is larger than ``threshold`` in size, row by row, as sorted sparse entries.

    ``least`` (an integer) has the bits of the smallest slope that could pass where ``w = 0``; whole blocks below it are
    passed over. On return row ``i`` of the piece ends at ``ends[i]``, and ``found`` is ``<gradient, move>`` and
    ``||move||^2``; returned are the entries in all. ``gradient`` is used up; ``slopes`` and ``tops`` are scratch, an
    entry for each atom and for each block of them and one more.
    """
    rows, m = gradient.shape
    whole = m // BLOCK
    one = gradient.dtype.type
    integer = bits.dtype.type  # of 32 bits numba makes 64 wherever it may, at a third of the speed
    huge = one(np.inf)
    count = np.int64(0)
    slope, square = 0.0, 0.0
    for p in range(rows):
        g, b = gradient[p], bits[p]
        begin, end = starts[first + p], starts[first + p + 1]
        for s in range(begin, end):
            slopes[s - begin] = g[old[s]]
            g[old[s]] = huge  # so that the scan finds it
        for k in range(whole):  # by themselves, with ends that the compiler knows: several times faster
            top = integer(0)
            for j in range(BLOCK):
                top = max(top, integer(b[k * BLOCK + j] & mask))
            tops[k] = top
        tops[whole] = mask  # of the rest, which is short
        s = begin
        for k in range(whole + 1):
            if tops[k] < least:
                continue
            for j in range(k * BLOCK, min((k + 1) * BLOCK, m)):
                if b[j] & mask < least:
                    continue
                here, w = g[j], one(0)
                if s < end and old[s] == j:
                    here, w = slopes[s - begin], old_values[s]
                    s += 1
                x = here * scale + w
                if not abs(x) <= threshold:  # NaN stays, so that a diverged run is seen
                    indices[count] = j
                    values[count] = x
                    count += 1
                    change = np.float64(x) - w
                else:
                    change = -np.float64(w)
                slope += here * change
                square += change * change
        ends[p] = count
    found[0], found[1] = slope, square
    return count
