"""Compiled exact coordinate descent on ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0`` over a box, sample by sample.

Slower than refit, drop and insert, but it takes bounds on the codes and a limit on their number. A readable twin is in
``plain.py``.
"""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import Double, Doubles, Indices, Integer, Matrix, Number, Vector


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
    indices: Indices,
    values: Vector,
    ends: Indices,
    w: Doubles,
) -> None:
    """At most ``moves`` exact coordinate moves a sample, always the one that lowers ``q`` most.

    ``C`` holds ``Y D`` on entry; ``shift`` times the old code is added here. A coordinate's best value is
    ``w_j + r_j / G_jj`` cut to ``[lower, upper]``, or zero; a sample with ``cap`` non-zeros gets no new one. It ends
    when no move gains more than ``accuracy`` times what the sample has gained so far. ``w`` is scratch, a zero for each
    atom.
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
        gained = penalty
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
