"""Compiled exact coordinate descent on ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0`` over a box, sample by sample.

Slower than refit, drop and insert, but it takes bounds on the codes and a limit on their number. A readable twin is in
``plain.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, part
from tecu.dictionary.kernels_refit import _refit
from tecu.kernels.words import Double, DoubleMatrix, Doubles, Indices, Integer, Matrix, Number, Vector


@part
def _refit_within(
    G: Any, shift: Any, r: Any, penalty: Any, lower: Any, upper: Any, floor: Any, w: Any, free: Any, numbers: Any
) -> Any:
    """Move the coefficients between the bounds to their least-squares values, or as far that way as the bounds allow.

    Atoms within ``floor`` of the span of others stay. ``r = c - (G + shift) w`` follows. Returns what ``q`` falls by,
    which is 0 where there are more coefficients than ``free`` has room for, how many have become zero, and whether one
    has come to a bound.
    """
    most = free.size
    inverse, g, v, d = numbers, numbers[most], numbers[most + 1], numbers[most + 2]
    size = np.int64(0)
    for j in range(w.size):
        if w[j] != 0.0 and lower < w[j] < upper:
            if size == most:
                return 0.0, np.int64(0), False
            free[size] = j
            size += 1
    t = _refit(G, shift, r, free, size, most, floor, inverse, d, g, v)
    slope, bend = 0.0, 0.0
    for s in range(t):
        row, x = G[free[s]], d[s]
        slope += x * r[free[s]]
        bend += x * x * shift
        for u in range(t):
            bend += x * row[free[u]] * d[u]
    if not (slope > 0.0 and bend > 0.0):
        return 0.0, np.int64(0), False
    reach, hit = slope / bend, np.int64(-1)  # 1 but for rounding
    for s in range(t):
        room = (lower if d[s] < 0.0 else upper) - w[free[s]]
        if abs(room) < reach * abs(d[s]):
            reach, hit = room / d[s], np.int64(s)
    gain, zeros = reach * (slope - 0.5 * reach * bend), np.int64(0)
    for s in range(t):
        j = free[s]
        target = min(max(w[j] + reach * d[s], lower), upper)
        if s == hit:
            target = lower if d[s] < 0.0 else upper
        if target == 0.0:
            zeros += 1
            gain += penalty
        step = r.dtype.type(target - w[j])
        row = G[j]
        for i in range(w.size):
            r[i] -= step * row[i]
        r[j] -= shift * step
        w[j] = target
    return gain, zeros, hit >= 0


@compiled
def descend_codes(
    G: Matrix,
    shift: Number,
    C: Matrix,
    starts: Indices,
    old: Indices,
    old_values: Vector,
    penalty: Double,
    cap: Integer,
    lower: Double,
    upper: Double,
    moves: Integer,
    accuracy: Double,
    floor: Double,
    indices: Indices,
    values: Vector,
    ends: Indices,
    w: Doubles,
    free: Indices,
    numbers: DoubleMatrix,
) -> None:
    """At most ``moves`` exact coordinate moves a sample, always the one that lowers ``q`` most.

    ``C`` holds ``Y D`` on entry; ``shift`` times the old code is added here. A coordinate's best value is
    ``w_j + r_j / G_jj`` cut to ``[lower, upper]``, or zero; a sample with ``cap`` non-zeros gets no new one. It ends
    when no move gains more than ``accuracy`` times what the sample has gained so far.

    Where the best move is one of a coefficient that stays, all of them are refitted together (:func:`_refit_within`),
    once for each support: where atoms are much alike, one by one would take thousands of moves. ``w``, ``free`` and
    ``numbers`` are scratch: a zero for each atom; room for the atoms of a refit; three rows more than that, as long.
    """
    samples, m = C.shape
    written = 0
    for p in range(samples):
        r = C[p]
        begin, end = starts[p], starts[p + 1]
        count = end - begin
        for s in range(begin, end):
            w[old[s]] = old_values[s]
            r[old[s]] += shift * old_values[s]
        for s in range(begin, end):  # r = c - (G + shift) w
            row, x = G[old[s]], old_values[s]
            for i in range(m):
                r[i] -= x * row[i]
            r[old[s]] -= shift * x
        gained, is_refitted = penalty, False
        for _ in range(moves):
            best, place, target = accuracy * gained, -1, 0.0
            for j in range(m):
                x = w[j]
                if x == 0.0 and (count >= cap or r[j] == 0.0):
                    continue
                curvature = np.float64(G[j, j]) + shift
                if curvature <= 0.0:
                    continue
                y = min(max(x + r[j] / curvature, lower), upper)
                gain = (y - x) * (r[j] - 0.5 * curvature * (y - x)) - penalty * (
                    np.float64(y != 0) - np.float64(x != 0)
                )
                if x != 0.0:
                    to_zero = penalty - x * (r[j] + 0.5 * curvature * x)
                    if to_zero > gain:
                        gain, y = to_zero, 0.0
                if gain > best:
                    best, place, target = gain, j, y
            if place < 0:
                break
            x = w[place]
            stays = x != 0.0 and target != 0.0
            if stays and not is_refitted:
                gain, zeros, at_bound = _refit_within(
                    G, shift, r, penalty, lower, upper, floor, w, free, numbers
                )  # fmt: skip
                is_refitted = not at_bound
                if gain > 0.0:
                    count -= zeros
                    gained += gain
                    continue
            is_refitted = is_refitted and stays and lower < x < upper and lower < target < upper
            step = r.dtype.type(target - x)
            row = G[place]
            for i in range(m):
                r[i] -= step * row[i]
            r[place] -= shift * step
            count += (target != 0) - (x != 0)
            w[place] = target
            gained += best
        for j in range(m):
            if w[j] != 0.0:
                indices[written] = j
                values[written] = w[j]
                written += 1
                w[j] = 0.0
        ends[p] = written
