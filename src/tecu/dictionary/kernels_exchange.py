"""Compiled exchange of atoms: insert, drop or swap one atom of a code at a time, each time the move that gains most.

For new samples only: nothing that ``fit`` needs is compiled here. Notation as in ``kernels_code``, in float64:
``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0``.
"""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.dictionary.kernels_code import _sort, _subtract_rows
from tecu.dictionary.kernels_refit import _border, _remove, _schur
from tecu.kernels.words import Double, DoubleMatrix, Doubles, IndexMatrix, Indices, Integer


@compiled
def exchange_codes(
    G: DoubleMatrix,
    C: DoubleMatrix,
    half_squares: Doubles,
    starts: Indices,
    old: Indices,
    penalty: Double,
    cap: Integer,
    floor: Double,
    moves: Integer,
    attempts: Integer,
    accuracy: Double,
    indices: Indices,
    values: Doubles,
    ends: Indices,
    numbers: DoubleMatrix,
    wide: DoubleMatrix,
    supports: IndexMatrix,
) -> None:
    r"""At most ``moves`` moves a sample from the support it has, each with a refit, always the one that lowers ``q``
    most; none that gains less than ``accuracy`` times ``|q|``.

    With the inverse ``V`` of ``G`` on the support, ``h_s = sum_r V_sr G_r`` and ``r = c - G w``: to insert ``j`` gains
    ``r_j^2 / 2 d_j - penalty``, ``d_j = G_jj - sum_s h_sj G_sj``; to drop ``s`` gains ``penalty - w_s^2 / 2 V_ss``; to
    put ``j`` in the place of ``s`` gains ``(r_j + h_sj w_s / V_ss)^2 / 2 (d_j + h_sj^2 / V_ss) - w_s^2 / 2 V_ss``. An
    atom within ``floor`` of the span of the others is not taken.

    A sample is left when what it has left, ``half_squares + q - penalty ||w||_0``, is no more than the penalty; one
    with more than ``cap`` atoms gets no code. The second of two ``attempts`` begins with none, and its first ``cap``
    moves take no atom of the first code; the better code is kept. The last three are scratch: ``cap + 4`` rows of
    ``cap``, as many of the atoms, and 2 of ``cap``.
    """
    samples, m = C.shape
    inverse, g, v, w, kept_w = numbers, numbers[cap], numbers[cap + 1], numbers[cap + 2], numbers[cap + 3]
    h, r, d, zeros, diagonal = wide, wide[cap], wide[cap + 1], wide[cap + 2], wide[cap + 3]
    support, kept, shift = supports[0], supports[1], 0.0
    for j in range(m):
        zeros[j], diagonal[j] = 0.0, G[j, j]
    written = 0
    for p in range(samples):
        c = C[p]
        length, lowest = np.int64(0), np.inf
        for attempt in range(attempts if starts[p + 1] - starts[p] <= cap else 0):
            t = np.int64(0)
            for s in range(starts[p], starts[p + 1] if attempt == 0 else starts[p]):
                atom = np.int64(old[s])
                schur = _schur(G, shift, support, t, inverse, g, v, atom)
                if schur >= floor:
                    _border(inverse, t, v, schur)
                    support[t] = atom
                    t += 1
            for move in range(moves + 1):
                value = penalty * t
                for s in range(t):
                    total = 0.0
                    for i in range(t):
                        total += inverse[s, i] * c[support[i]]
                    w[s] = total
                    value -= 0.5 * total * c[support[s]]
                if move == moves or half_squares[p] + value - penalty * t <= penalty:
                    break
                best, out, into = accuracy * abs(value), np.int64(-1), np.int64(-1)
                _subtract_rows(r, c, G, support, w, t)
                for j in range(m):
                    d[j] = diagonal[j]
                for s in range(t):
                    for i in range(t):
                        v[i] = -inverse[s, i]
                    row, own = G[support[s]], h[s]
                    _subtract_rows(own, zeros, G, support, v, t)
                    for j in range(m):
                        d[j] -= own[j] * row[j]
                    loss = 0.5 * w[s] * w[s] / inverse[s, s]
                    if penalty - loss > best:
                        best, out, into = penalty - loss, np.int64(s), np.int64(-1)
                for s in range(t):
                    d[support[s]] = np.inf  # taken
                for s in range(length if attempt > 0 and move < cap else 0):
                    d[kept[s]] = np.inf
                for s in range(-1 if t < cap else 0, t):  # none goes, or one
                    own, pivot, back, loss = zeros, 0.0, 0.0, penalty
                    if s >= 0:
                        own, pivot = h[s], 1.0 / inverse[s, s]
                        back = w[s] * pivot
                        loss = 0.5 * w[s] * back
                    bar, hits = best + loss, 0
                    for j in range(m):
                        top, room = r[j] + back * own[j], d[j] + pivot * own[j] * own[j]
                        hits += 0.5 * top * top > bar * room
                    if hits == 0:
                        continue
                    for j in range(m):
                        top, room = r[j] + back * own[j], d[j] + pivot * own[j] * own[j]
                        if 0.5 * top * top > (best + loss) * room and floor <= room < np.inf:
                            best, out, into = 0.5 * top * top / room - loss, np.int64(s), np.int64(j)
                if out < 0 and into < 0:
                    break
                if out >= 0:
                    t = _remove(inverse, support, w, t, out)
                if into >= 0:
                    schur = _schur(G, shift, support, t, inverse, g, v, into)
                    _border(inverse, t, v, schur)
                    support[t] = into
                    t += 1
            if value < lowest:
                lowest, length = value, t
                for s in range(t):
                    kept[s], kept_w[s] = support[s], w[s]
        _sort(kept, kept_w, length)
        for s in range(length):
            if kept_w[s] != 0.0:
                indices[written] = kept[s]
                values[written] = kept_w[s]
                written += 1
        ends[p] = written
