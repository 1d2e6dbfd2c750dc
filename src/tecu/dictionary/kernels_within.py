"""Compiled exchange of atoms within bounds: refit, insert, drop or swap one atom of a code at a time while that pays.

As ``kernels_exchange``, but each refit is a least-squares problem over a box, so no gain is known before it is tried.

"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, written_out
from tecu.dictionary.kernels_code import _sort, _subtract_rows
from tecu.kernels.words import Double, DoubleMatrix, Doubles, Flags, IndexMatrix, Indices, Integer, Integers


@written_out
def _refit_within(
    G: Any, c: Any, support: Any, t: Any, w: Any, lower: Any, upper: Any, A: Any, x: Any, free: Any, places: Any
) -> Any:
    """Least ``1/2 w'Gw - c'w`` over the box, from ``w`` in it: the active-set method.

    Coefficients that are free take their least-squares value; the first that meets a bound on the way stays there; when
    none does, the one at a bound that the gradient pulls away from it hardest is set free.
    """
    for s in range(t):
        free[s] = lower < w[s] < upper
    for _ in range(4 * t + 4):
        n = 0
        for s in range(t):
            if free[s]:
                places[n] = s
                n += 1
        broken = False
        for a in range(n):  # A = L D L' below the diagonal, x = L^-1 rhs
            i = support[places[a]]
            total = np.float64(c[i])
            for s in range(t):
                if not free[s]:
                    total -= G[i, support[s]] * w[s]
            for b in range(a + 1):
                entry = np.float64(G[i, support[places[b]]])
                for k in range(b):
                    entry -= A[a, k] * A[b, k] * A[k, k]
                A[a, b] = entry if b == a else entry / A[b, b]
            for b in range(a):
                total -= A[a, b] * x[b]
            x[a] = total
            if A[a, a] <= 1e-9 * G[i, i]:  # in the span of the others: it stays as it is
                free[places[a]] = False
                broken = True
                break
        if broken:
            continue
        for a in range(n - 1, -1, -1):
            x[a] /= A[a, a]
            for b in range(a + 1, n):
                x[a] -= A[b, a] * x[b]
        step, hit = 1.0, -1
        for a in range(n):
            now, then = w[places[a]], x[a]
            bound = upper if then > upper else lower
            if (then > upper or then < lower) and (bound - now) / (then - now) < step:
                step, hit = (bound - now) / (then - now), a
        for a in range(n):
            s = places[a]
            w[s] = min(max(w[s] + step * (x[a] - w[s]), lower), upper)
        if hit >= 0:
            s = places[hit]
            w[s] = upper if x[hit] > upper else lower
            free[s] = False
            continue
        most, place = 0.0, -1
        for s in range(t):
            if not free[s]:
                i = support[s]
                pull = np.float64(c[i])
                for k in range(t):
                    pull -= G[i, support[k]] * w[k]
                away = pull if w[s] <= lower else -pull if w[s] >= upper else 0.0
                if away > most and away > 1e-10 * abs(c[i]):
                    most, place = away, s
        if place < 0:
            break
        free[place] = True


@compiled
def exchange_within(
    G: DoubleMatrix,
    C: DoubleMatrix,
    starts: Indices,
    old: Indices,
    old_values: Doubles,
    penalty: Double,
    cap: Integer,
    lower: Double,
    upper: Double,
    moves: Integer,
    tries: Integer,
    candidates: Integer,
    accuracy: Double,
    indices: Indices,
    values: Doubles,
    ends: Indices,
    numbers: DoubleMatrix,
    wide: DoubleMatrix,
    supports: IndexMatrix,
    free: Flags,
    places: Integers,
) -> None:
    """At most ``moves`` moves a sample from the code it has; none that gains less than ``accuracy`` times ``|q|``.

    First it is refit and, below ``cap`` atoms, one of the ``candidates`` that gain most by themselves is inserted. If
    that does not pay, one of the ``tries`` atoms that would be missed least is dropped, the rest refit, and a candidate
    put in its place; the first atom with one that pays goes. A sample with more than ``cap`` atoms gets no code. The
    last five are scratch: ``cap + 5`` rows of ``cap``, 2 of the atoms, 3 of ``cap``, ``cap`` truth values and places.
    """
    samples, m = C.shape
    A, x, w, trial = numbers, numbers[cap], numbers[cap + 1], numbers[cap + 2]
    losses, start, r, gains = numbers[cap + 3], numbers[cap + 4], wide[0], wide[1]
    support, tried, first = supports[0], supports[1], supports[2]
    written = 0
    for p in range(samples):
        c = C[p]
        t = np.int64(0)
        if starts[p + 1] - starts[p] > cap:
            ends[p] = written
            continue
        for s in range(starts[p], starts[p + 1]):
            support[t], w[t] = old[s], old_values[s]
            t += 1
        value = np.inf
        for _ in range(moves):
            for s in range(t):
                pull = np.float64(c[support[s]])
                for k in range(t):
                    pull -= G[support[s], support[k]] * w[k]
                losses[s] = w[s] * (pull + 0.5 * G[support[s], support[s]] * w[s])
            improved = False
            for attempt in range(min(t, tries) + 1):
                out = np.int64(-1)
                if attempt > 0:
                    out = np.int64(np.argmin(losses[:t]))
                    losses[out] = np.inf
                rest = np.int64(0)
                for s in range(t):
                    if s != out:
                        first[rest], start[rest] = support[s], w[s]
                        rest += 1
                for phase in range(1 + candidates):  # one place that calls the refit: it is compiled into each
                    if phase == 1:
                        if rest >= cap:
                            break
                        _subtract_rows(r, c, G, first, start, rest)
                        for s in range(rest):
                            r[first[s]] = 0.0
                        for j in range(m):
                            y = min(max(r[j] / G[j, j], lower), upper) if G[j, j] > 0.0 else 0.0
                            gains[j] = y * (r[j] - 0.5 * G[j, j] * y)
                    n = rest
                    for s in range(n):
                        tried[s], trial[s] = first[s], start[s]
                    if phase > 0:
                        into = np.argmax(gains)
                        if gains[into] <= 0.0:
                            break
                        tried[n], trial[n] = into, min(max(r[into] / G[into, into], lower), upper)
                        gains[into] = 0.0
                        n += 1
                    _refit_within(G, c, tried, n, trial, lower, upper, A, x, free, places)
                    kept = np.int64(0)
                    for s in range(n):
                        tried[kept], trial[kept] = tried[s], trial[s]
                        if trial[s] != 0.0:
                            kept += 1
                    n = kept
                    now = penalty * n
                    for s in range(n):
                        product = -2.0 * c[tried[s]]
                        for k in range(n):
                            product += G[tried[s], tried[k]] * trial[k]
                        now += 0.5 * product * trial[s]
                    if phase == 0:
                        rest = n
                        for s in range(n):
                            first[s], start[s] = tried[s], trial[s]
                    if now < value - accuracy * abs(value) or value == np.inf:
                        value, t, improved = now, n, True
                        for s in range(n):
                            support[s], w[s] = tried[s], trial[s]
                if improved:
                    break
            if not improved:
                break
        _sort(support, w, t)
        for s in range(t):
            indices[written] = support[s]
            values[written] = w[s]
            written += 1
        ends[p] = written
