"""Compiled parts of the coder for one sample and a small support: refit, drop, and what others could gain.

``inverse`` is that of ``G[support, support] + shift``, which grows and shrinks with the support. Notation as in
``kernels_code``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import part
from tecu.dictionary.kernels_code import _inner, _misfit

HOPELESS = 2.0
"""What is left with the old coefficients, in units of what must be left at most, from which on no refit is tried."""

ROUNDING = 1e-3
"""Of the squared length of what is left, which is summed entry by entry: it is no difference of large squares."""


@part
def _schur(G: Any, shift: Any, support: Any, t: Any, inverse: Any, g: Any, v: Any, j: Any) -> Any:
    """``v = inverse g``, ``g = G[support, j]``, and the Schur complement ``G[j, j] + shift - g'v``."""
    row = G[j]
    for s in range(t):
        g[s] = row[support[s]]
    d = np.float64(row[j]) + shift
    for r in range(t):
        total = 0.0
        for s in range(t):
            total += inverse[r, s] * g[s]
        v[r] = total
        d -= total * g[r]
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
def _refit(
    G: Any, shift: Any, c: Any, support: Any, size: Any, cap: Any, floor: Any, inverse: Any, w: Any, g: Any, v: Any
) -> Any:
    """The least-squares code on a support of ``size`` atoms, less those that depend on others; returns its length."""
    t = np.int64(0)  # a plain 0 has a type of its own, for which every part is compiled once more
    for s in range(size):
        j = np.int64(support[s])
        d = _schur(G, shift, support, t, inverse, g, v, j)
        if d >= floor and t < cap:
            _border(inverse, t, v, d)
            support[t] = j
            t += 1
    for r in range(t):
        total = 0.0
        for s in range(t):
            total += inverse[r, s] * c[support[s]]
        w[r] = total
    return t


@part
def _drop(inverse: Any, support: Any, w: Any, t: Any, penalty: Any) -> Any:
    """Drop atoms, each followed by a refit, while that pays; returns how many are left."""
    while t > 0:
        least, x = penalty, np.int64(-1)
        for s in range(t):
            loss = 0.5 * w[s] * w[s] / inverse[s, s]
            if loss < least:
                least, x = loss, np.int64(s)
        if x < 0:
            break
        t = _remove(inverse, support, w, t, x)
    return t


@part
def _value_at(G: Any, shift: Any, c: Any, old: Any, old_values: Any, begin: Any, end: Any, penalty: Any) -> Any:
    """``q`` at the old code, which is stored from ``begin`` to ``end``."""
    value = penalty * (end - begin)
    for s in range(begin, end):
        row = G[old[s]]
        product = np.float64(shift) * old_values[s] - 2 * c[old[s]]
        for r in range(begin, end):
            product += np.float64(row[old[r]]) * old_values[r]
        value += 0.5 * product * old_values[s]
    return value


@part
def _move(support: Any, w: Any, t: Any, old: Any, old_values: Any, begin: Any, end: Any) -> Any:
    """``||w - old||^2``."""
    square = 0.0
    for r in range(begin, end):
        square += np.float64(old_values[r]) * old_values[r]
    for s in range(t):
        square += w[s] * w[s]
        for r in range(begin, end):
            if old[r] == support[s]:
                square -= 2 * w[s] * old_values[r]
    return square


@part
def _settle_one(
    y: Any, D: Any, G: Any, shift: Any, old: Any, old_values: Any, begin: Any, end: Any, stop: Any, penalty: Any,
    cap: Any, floor: Any, c: Any, support: Any, inverse: Any, w: Any, g: Any, v: Any, rounded: Any, rest: Any,
) -> Any:  # fmt: skip
    """Refit and drop on the old support, and see whether too little of the sample is left for any insertion.

    What is left is ``r = y - D'w``, with a ``shift`` also ``sqrt(shift) (old - w)``: whatever is inserted gains no more
    than half of its square. So if that is at most ``stop`` the correlations with all the atoms need not be known. The
    gradient at another atom ``a`` is at most ``||a|| ||r||``, so the code is its own prox point, too. (The square is
    not had from the correlations: where atoms are much alike, rounding of ``G`` would make anything of it.)

    Returns the length of the code, or -1 if that is not told, and the change of ``q``. ``c`` gets the correlations with
    the old atoms; ``rounded`` is scratch for coefficients, ``rest`` for a sample.
    """
    size = end - begin
    if size > cap:
        return np.int64(-1), 0.0
    for s in range(size):
        j = old[begin + s]
        support[s] = j
        c[j] = _inner(D[j], y) + shift * old_values[begin + s]
    t, before = np.int64(0), 0.0
    if size > 0:
        before = _value_at(G, shift, c, old, old_values, begin, end, penalty)
        square = _inner(y, y) + shift * _move(support, w, t, old, old_values, begin, end)
        if not 0.5 * square + before - penalty * size <= HOPELESS * stop:  # NaN, too
            return np.int64(-1), 0.0
        t = _drop(inverse, support, w, _refit(G, shift, c, support, size, cap, floor, inverse, w, g, v), penalty)
    value = penalty * t
    for s in range(t):
        rounded[s] = w[s]
        value -= 0.5 * w[s] * c[support[s]]
    left = _misfit(y, D, support, rounded, t, rest)
    if shift > 0:
        left += shift * _move(support, w, t, old, old_values, begin, end)
    if not 0.5 * (1.0 + ROUNDING) * left <= stop:
        return np.int64(-1), 0.0
    return t, value - before
