"""The compiled prox-linear step of sparse codes under ``penalty ||w||_0``.

This module imports numba: import it lazily. Its readable twin is ``terms.L0.prox(w - gradient / gamma, 1 / gamma)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled

BLOCK = 64  # gradient entries compared at a time


@compiled
def hard_step(
    starts: Any,
    old: Any,
    old_values: Any,
    first: Any,
    gradient: Any,
    bits: Any,
    mask: Any,
    least: Any,
    scale: Any,
    threshold: Any,
    indices: Any,
    values: Any,
    ends: Any,
) -> Any:
    """``w + scale gradient`` where it is larger than ``threshold`` in size, row by row, as sorted sparse entries.

    ``least`` (an integer) has the bits of the smallest slope that could pass where ``w = 0``; whole blocks below it are
    passed over. On return row ``i`` of the piece ends at ``ends[i]``. Returned are the entries in all, ``<gradient,
    move>`` and ``||move||^2``. ``gradient`` is used up.
    """
    rows, m = gradient.shape
    whole = m // BLOCK
    slopes, tops = np.empty(m, gradient.dtype), np.empty(whole + 1, bits.dtype)
    one = gradient.dtype.type
    integer = bits.dtype.type  # of 32 bits numba makes 64 wherever it may, at a third of the speed
    huge = one(np.inf)
    count = 0
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
    return count, slope, square
