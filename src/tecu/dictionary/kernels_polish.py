"""The compiled coder: greedy pursuit on the Gram matrix; refit, drop and insert from an old support or from none.

One kernel does both: greedy pursuit is to insert without dropping.

Notation as in ``kernels_code``: ``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0``, ``shift`` on the diagonal of ``G``.
Readable twins are in ``plain.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, part, routine, take_next, written_out
from tecu.dictionary.kernels_code import _correlate, _largest, _sort, _subtract_rows
from tecu.dictionary.kernels_refit import (
    _border,
    _drop,
    _refit,
    _remove,
    _schur,
    _settle_one,
    _value_at,
)
from tecu.kernels.words import (
    Bits,
    BitVector,
    Double,
    DoubleMatrix,
    Flag,
    IndexMatrix,
    Indices,
    Integer,
    IntegerMatrix,
    Integers,
    Matrix,
    Number,
    Vector,
)


@written_out
def _polish_one(
    G: Any,
    shift: Any,
    c: Any,
    work: Any,
    bits: Any,
    mask: Any,
    stop: Any,
    penalty: Any,
    cap: Any,
    floor: Any,
    polish: Any,
    support: Any,
    t: Any,
    inverse: Any,
    w: Any,
    g: Any,
    v: Any,
    rounded: Any,
) -> Any:
    """Refit on the support; insert while the next atom gains more than ``stop``; with ``polish`` drop while that pays.

    From an empty support that is orthogonal matching pursuit. Without ``polish`` it is nothing else, and ends at an
    atom within ``floor`` of the span of those chosen; the prefix of the path with the least ``q`` is kept. Returns the
    length, the insertions, ``q`` and whether no single atom can be dropped or inserted with profit. ``rounded`` is
    scratch for coefficients in the precision of ``work``, in which other kernels subtract rows: that is compiled once.
    """
    inserted = best = np.int64(0)
    t = _refit(G, shift, c, support, t, cap, floor, inverse, w, g, v)
    settled = False
    path, lowest = 0.0, 0.0  # q along the path
    for _ in range(4 * cap):
        if polish:
            t = _drop(inverse, support, w, t, penalty)
        for s in range(t):
            rounded[s] = w[s]
        _subtract_rows(work, c, G, support, rounded, t)
        for s in range(t):
            work[support[s]] = 0  # where the refit has left rounding only
        settled = True
        gain, d = 0.0, 1.0
        while True:
            j = _largest(work, bits, mask)
            if j < 0:
                break
            gain = 0.5 * np.float64(work[j]) * work[j]
            if gain <= stop * floor:  # d >= floor: no atom from here on can pay
                j = np.int64(-1)
                break
            d = _schur(G, shift, support, t, inverse, g, v, j)
            if d >= floor:
                break
            if not polish:
                j = np.int64(-1)
                break
            settled = settled and gain <= penalty * (G[j, j] + shift)
            work[j] = 0
        if j < 0 or gain <= stop * d:
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
        path += penalty - gain / d
        if path < lowest:
            lowest, best = path, t
    while not polish and t > best:
        t = _remove(inverse, support, w, t, t - 1)
    value = penalty * t
    for s in range(t):
        value -= 0.5 * w[s] * c[support[s]]
    return t, inserted, value, settled


@part
def _write(support: Any, w: Any, t: Any, indices: Any, values: Any, place: Any) -> Any:
    """A code as CSR wants it, sorted and without zeros, from ``place`` on; returns where it ends."""
    _sort(support, w, t)
    for s in range(t):
        indices[place] = support[s]
        values[place] = w[s]
        if values[place] != 0:
            place += 1
    return place


@routine
def _code_tile(
    gemm: Any, Y: Any, D: Any, G: Any, shift: Any, starts: Any, old: Any, old_values: Any, mask: Any, stop: Any,
    penalty: Any, cap: Any, floor: Any, restart: Any, polish: Any, first: Any, last: Any, some: Any, tile: Any,
    work: Any, bits: Any, numbers: Any, supports: Any, indices: Any, values: Any, place: Any, ends: Any,
) -> Any:  # fmt: skip
    """The samples from ``first`` to ``last``, as :func:`codes_of` has them; their codes begin at ``place``.

    Returns where they end, the change of ``q`` and how many of them are settled.
    """
    inverse, g, v, w, w2 = numbers, numbers[cap], numbers[cap + 1], numbers[cap + 2], numbers[cap + 3]
    s1, s2 = supports[0], supports[1]
    change, settled = 0.0, np.int64(0)
    for p in range(first, last):
        t, gain = np.int64(-1), 0.0
        room = place + (p - first) * cap  # there a code can wait, whatever the lengths of those before
        if starts[p] == starts[p + 1] or (polish and restart < 2):
            t, gain = _settle_one(
                Y[p], D, G, shift, old, old_values, starts[p], starts[p + 1], stop, penalty, cap, floor, work, s2,
                inverse, w2, g, v, values[room:], some[0],
            )  # fmt: skip
        if t >= 0:
            t = _write(s2, w2, t, indices, values, room) - room
            change += gain
            settled += 1
        ends[p] = t
    _correlate(gemm, Y, D, first, last, ends, some, tile)
    row = np.int64(0)
    room = place
    for p in range(first, last):
        if ends[p] >= 0:
            for s in range(ends[p]):
                indices[place + s], values[place + s] = indices[room + s], values[room + s]
            place += ends[p]
            ends[p] = place
            room += cap
            continue
        room += cap
        c = tile[row]
        row += 1
        begin, end = starts[p], starts[p + 1]
        for s in range(begin, end):
            c[old[s]] += shift * old_values[s]
        before = _value_at(G, shift, c, old, old_values, begin, end, penalty)
        held = min(cap, end - begin)
        t, t2, inserted, value, fixed = np.int64(-1), np.int64(0), np.int64(1), 0.0, False
        for attempt in range(4):  # one place that calls the polish: it is compiled into each
            size = np.int64(0)
            if attempt == 0:
                if held == 0:
                    continue
                size = np.int64(held)
                for s in range(held):
                    s2[s] = old[begin + s]
            elif attempt == 1:
                if held > 0 and (restart == 0 or (restart == 1 and inserted == 0)):
                    break
            elif restart < 3:
                break
            elif attempt == 3:
                size = t2  # s2 is where the pursuit has ended
            t2, inserted, value2, fixed2 = _polish_one(
                G, shift, c, work, bits, mask, stop, penalty, cap, floor, polish and attempt != 2, s2, size, inverse,
                w2, g, v, values[place:],
            )  # fmt: skip
            if t < 0 or value2 < value:
                t, value, fixed = t2, value2, fixed2 and attempt != 2
                for s in range(t):
                    s1[s], w[s] = s2[s], w2[s]
        place = _write(s1, w, t, indices, values, place)
        ends[p] = place
        change += value - before
        settled += np.int64(fixed)
    return place, change, settled


@compiled
def codes_of(
    gemm: Integer,
    Y: Matrix,
    D: Matrix,
    G: Matrix,
    shift: Number,
    starts: Indices,
    old: Indices,
    old_values: Vector,
    mask: Bits,
    stop: Double,
    penalty: Double,
    cap: Integer,
    floor: Double,
    restart: Integer,
    polish: Flag,
    edges: Integers,
    taken: Integers,
    own: Integer,
    some: Matrix,
    tile: Matrix,
    work: Vector,
    bits: BitVector,
    numbers: DoubleMatrix,
    supports: IndexMatrix,
    indices: Indices,
    values: Vector,
    ends: Indices,
    places: IntegerMatrix,
    changes: DoubleMatrix,
) -> None:
    """For each sample of ``Y``: refit, drop and insert from the old support, and from none; keep the better.

    Samples are coded tile by tile, tile ``i`` from ``edges[i]`` to ``edges[i + 1]``. ``taken`` is how many tiles
    somebody has begun, which threads that share the samples have in common; each codes the next one as long as there
    are any and ``indices`` and ``values`` have room for a whole tile.

    Correlations ``c = D y + shift old`` are made here, by BLAS at ``gemm``: a thread that makes them by NumPy asks for
    the interpreter's lock at every tile. They are not made of samples that the old code, or none, leaves too little of
    (:func:`tecu.dictionary.kernels_refit._settle_one`), unless it is to begin from none, too. ``restart`` 0: from none
    only where there is no old support; 1: also where an atom came in; 2: always; 3: always, and by greedy pursuit too,
    both as it ends and polished. ``some`` and ``tile`` are scratch for samples that are gathered and for correlations
    of the largest tile, from :func:`tecu.dictionary.coding.room_for_correlations`; ``work`` is one row of ``tile``,
    ``bits`` the same memory as integers; ``numbers`` and ``supports`` are scratch too, ``cap + 4`` and 2 rows of
    ``cap``. For each row of ``tile`` there is room for ``cap`` ``indices`` and ``values``. The codes of this call are
    written one after the other, sorted, without zeros; sample ``p`` ends at ``ends[p]``. Of tile ``i``, ``places[i]``
    gets ``own`` and where its first sample begins, ``changes[i]`` the change of ``q`` and how many codes are settled.

    Without ``polish``, and from no old codes: greedy pursuit, which ends at ``cap`` atoms, when the next gain is at
    most ``stop``, or when the next atom is within ``floor`` of the span of those chosen.
    """
    place = np.int64(0)
    while place + tile.shape[0] * cap <= indices.size:
        i = take_next(taken)
        if i >= edges.size - 1:
            break
        places[i, 0], places[i, 1] = own, place
        place, change, settled = _code_tile(
            gemm, Y, D, G, shift, starts, old, old_values, mask, stop, penalty, cap, floor, restart, polish, edges[i],
            edges[i + 1], some, tile, work, bits, numbers, supports, indices, values, place, ends,
        )  # fmt: skip
        changes[i, 0], changes[i, 1] = change, settled
