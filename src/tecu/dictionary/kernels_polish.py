"""The compiled coder: greedy pursuit on the Gram matrix; refit, drop and insert from an old support or a greedy one.

One kernel does both, so that the greedy part is compiled once.

Notation as in ``kernels_code``: ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0``, ``shift`` on the diagonal of ``G``.
Readable
twins are in ``plain.py``. This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, part
from tecu.dictionary.kernels_code import _back_substitute, _greedy_one, _largest, _sort, _subtract_rows


@part
def _schur(G: Any, shift: Any, support: Any, t: Any, inverse: Any, v: Any, j: Any) -> Any:
    """``v = inverse G[support, j]`` and the Schur complement ``G[j, j] + shift - G[j, support] v``."""
    d = np.float64(G[j, j]) + shift
    for r in range(t):
        total = 0.0
        for s in range(t):
            total += inverse[r, s] * G[j, support[s]]
        v[r] = total
        d -= total * G[j, support[r]]
    return d


@part
def _border(inverse: Any, t: Any, v: Any, d: Any) -> Any:
    """The inverse with one more row and column, whose Schur complement is ``d``."""
    for r in range(t):
        share = v[r] / d
        for s in range(t):
            inverse[r, s] += share * v[s]
        inverse[r, t] = -share
        inverse[t, r] = -share
    inverse[t, t] = 1 / d


@part
def _remove(inverse: Any, support: Any, w: Any, t: Any, x: Any) -> Any:
    """Take the entry ``x`` out of support, coefficients and inverse; the last one moves into its place."""
    pivot = inverse[x, x]
    for r in range(t):
        if r == x:
            continue
        share = inverse[r, x] / pivot
        w[r] -= share * w[x]
        for s in range(t):
            if s != x:
                inverse[r, s] -= share * inverse[x, s]
    last = t - 1
    if x != last:
        support[x], w[x] = support[last], w[last]
        for s in range(last):
            if s != x:
                inverse[x, s] = inverse[last, s]
                inverse[s, x] = inverse[s, last]
        inverse[x, x] = inverse[last, last]
    return last


@part
def _polish_one(
    G: Any,
    shift: Any,
    c: Any,
    work: Any,
    bits: Any,
    mask: Any,
    penalty: Any,
    cap: Any,
    floor: Any,
    support: Any,
    t: Any,
    inverse: Any,
    w: Any,
    v: Any,
) -> Any:
    """Refit on the support; drop while that pays, insert while that pays.

    Returns the length, the insertions, ``q`` and whether no single atom can be dropped or inserted with profit.
    """
    size = t
    t = inserted = np.int64(0)  # not a plain 0: see _greedy_one
    for s in range(size):
        j = np.int64(support[s])
        d = _schur(G, shift, support, t, inverse, v, j)
        if d >= floor and t < cap:
            _border(inverse, t, v, d)
            support[t] = j
            t += 1
    for r in range(t):
        total = 0.0
        for s in range(t):
            total += inverse[r, s] * c[support[s]]
        w[r] = total
    settled = False
    for _ in range(4 * cap):
        while t > 0:
            least, x = penalty, np.int64(-1)
            for s in range(t):
                loss = 0.5 * w[s] * w[s] / inverse[s, s]
                if loss < least:
                    least, x = loss, np.int64(s)
            if x < 0:
                break
            t = _remove(inverse, support, w, t, x)
        for i in range(work.size):
            work[i] = c[i]
        _subtract_rows(work, G, support, w, t)
        for s in range(t):
            work[support[s]] = 0  # where the refit has left rounding only
        settled = True
        gain, d = 0.0, 1.0
        while True:
            j = _largest(work, bits, mask)
            if j < 0:
                break
            gain = 0.5 * np.float64(work[j]) * work[j]
            if gain <= penalty * floor:  # d >= floor: no atom from here on can pay
                j = np.int64(-1)
                break
            d = _schur(G, shift, support, t, inverse, v, j)
            if d >= floor:
                break
            settled = settled and gain <= penalty * (G[j, j] + shift)
            work[j] = 0
        if j < 0 or gain <= penalty * d:
            break
        if t == cap:
            settled = settled and gain <= penalty * (G[j, j] + shift)
            break
        step = work[j] / d
        for s in range(t):
            w[s] -= v[s] * step
        _border(inverse, t, v, d)
        support[t], w[t] = j, step
        t += 1
        inserted += 1
        settled = False
    value = penalty * t
    for s in range(t):
        value -= 0.5 * w[s] * c[support[s]]
    return t, inserted, value, settled


@compiled
def codes_of(
    G: Any,
    shift: Any,
    C: Any,
    starts: Any,
    old: Any,
    old_values: Any,
    mask: Any,
    stop: Any,
    penalty: Any,
    cap: Any,
    floor: Any,
    restart: Any,
    polish: Any,
    spare: Any,
    bits: Any,
    indices: Any,
    values: Any,
    counts: Any,
    report: Any,
) -> Any:
    """For each row of ``C``: refit, drop and insert from the old support, and from a greedy one; keep the better.

    ``C`` holds ``Y D`` on entry; ``shift`` times the old code is added here. ``restart`` 0: greedy only where there is
    no old support; 1: also where an atom came in; 2: always. ``spare`` is one row of scratch, ``bits`` the same memory
    as integers. ``report`` gets for each sample the change of ``q`` and whether the code is settled.

    A greedy path ends at ``cap`` atoms, when the next gain is at most ``stop``, or when the next atom is within
    ``floor`` of the span of those chosen; of the path, the prefix with the least ``q`` is kept. Without ``polish`` and
    with ``restart = 2`` that is the answer, and ``report`` says nothing.
    """
    samples, m = C.shape
    U = np.empty((cap, m), C.dtype)
    R = np.empty((cap, cap), C.dtype)
    b = np.empty(cap, C.dtype)
    inverse = np.empty((cap, cap))
    v = np.empty(cap)
    w, w2 = np.empty(cap), np.empty(cap)
    s1, s2 = np.empty(cap, np.int32), np.empty(cap, np.int32)
    order = np.empty(cap, np.int32)
    for s in range(cap):
        order[s] = s
    one = C.dtype.type
    narrow_stop, narrow_penalty, narrow_floor = one(stop), one(penalty), one(floor)
    for p in range(samples):
        c = C[p]
        begin, end = starts[p], starts[p + 1]
        before = penalty * (end - begin)
        for s in range(begin, end):
            j = old[s]
            c[j] += shift * old_values[s]
        for s in range(begin, end):
            row = G[old[s]]
            product = np.float64(shift) * old_values[s] - 2 * c[old[s]]
            for r in range(begin, end):
                product += np.float64(row[old[r]]) * old_values[r]
            before += 0.5 * product * old_values[s]
        held = min(cap, end - begin)
        t, inserted, value, fixed = 0, 1, 0.0, False
        for attempt in range(2):  # one place that calls the polish: it is compiled into each
            size = held
            if attempt == 0:
                if held == 0 and restart != 0:
                    continue
                for s in range(held):
                    s2[s] = old[begin + s]
            else:
                if held > 0 and (restart == 0 or (restart == 1 and inserted == 0)):
                    break
                for i in range(m):
                    spare[i] = c[i]
                size = _greedy_one(
                    G, shift, spare, bits, mask, narrow_stop, narrow_penalty, cap, narrow_floor, U, R, b, order, v, s2
                )
            if not polish:
                _back_substitute(R, b, size, w2)
                t = size
                for s in range(t):
                    s1[s], w[s] = s2[s], w2[s]
                break
            t2, inserted, value2, fixed2 = _polish_one(
                G, shift, c, spare, bits, mask, penalty, cap, floor, s2, size, inverse, w2, v
            )
            if attempt == 0 or value2 < value or begin == end:
                t, value, fixed = t2, value2, fixed2
                for s in range(t):
                    s1[s], w[s] = s2[s], w2[s]
        _sort(s1, w, t)
        for s in range(t):
            indices[p, s] = s1[s]
            values[p, s] = w[s]
        counts[p] = t
        report[p, 0] = value - before
        report[p, 1] = 1.0 if fixed else 0.0
