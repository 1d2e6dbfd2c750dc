"""The compiled step of online learning: a batch is coded, added to the totals, and the atoms are swept over.

Threads that take part in it share a list of jobs and need the interpreter's lock for none of them: whoever is free
begins the next job that nobody has begun, once all jobs are done that it needs. Jobs are begun in their order, so what
a job needs has been begun before; a thread by itself never waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled, matrix_product, own_product, part, routine, take_next
from tecu.dictionary.kernels_atoms import (
    SPARSE_TOTALS,
    SWEEP_BLOCK,
    _add_sample,
    _share_filled,
    _sweep_range,
)
from tecu.dictionary.kernels_code import _misfit
from tecu.dictionary.kernels_polish import _code_tile
from tecu.dictionary.kernels_waiting import _glance
from tecu.kernels.words import (
    Bits,
    BitVector,
    Double,
    DoubleMatrix,
    Doubles,
    Flag,
    Flags,
    IndexMatrix,
    Indices,
    Integer,
    Integers,
    Matrix,
    Vector,
)

FEW_PAIRS = 0.3
"""Up to this share of all pairs of atoms that are used together, the two halves of the atoms need not agree at once."""

ALL_TAKEN = -1
"""What is returned when nobody has to begin another job."""


@routine
def _gram_strip(gemm: Any, syrk: Any, D: Any, G: Any, first: Any, end: Any) -> Any:
    """The rows ``first`` to ``end`` of ``G = D D'`` from the diagonal on, and what is symmetric to them."""
    own_product(syrk, D[first:end], G[first:end, first:end])
    if end < D.shape[0]:
        matrix_product(gemm, D[first:end], D[end:], G[first:end, end:])
    for r in range(first, end, 32):
        for c in range(r, G.shape[0], 32):
            for i in range(r, min(r + 32, end)):
                for j in range(max(i + 1, c), min(c + 32, G.shape[0])):
                    G[j, i] = G[i, j]


@part
def _count_pairs(tiles: Any, ends: Any) -> Any:
    """How many products of two coefficients of a sample there are; codes of a tile begin at 0."""
    pairs = 0.0
    for i in range(tiles.size - 1):
        begin = np.int64(0)
        for p in range(tiles[i], tiles[i + 1]):
            pairs += np.float64(ends[p] - begin) * np.float64(ends[p] - begin)
            begin = np.int64(ends[p])
    return pairs


@part
def _shrink(rows: Any, keep: Any) -> Any:
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] = rows.dtype.type(keep) * rows[i, j] if keep > 0 else rows.dtype.type(0)


@part
def _copy_rows(source: Any, target: Any) -> Any:
    for i in range(source.shape[0]):
        for f in range(source.shape[1]):
            target[i, f] = source[i, f]


@compiled
def gram_strip(gemm: Integer, syrk: Integer, D: Matrix, G: Matrix, first: Integer, end: Integer) -> None:
    """The rows ``first`` to ``end`` of ``G = D D'`` from the diagonal on, and what is symmetric to them."""
    _gram_strip(gemm, syrk, D, G, first, end)


@compiled
def absorb(
    gemm: Integer, syrk: Integer, Y: Matrix, D: Matrix, G: Matrix, A: Matrix, B: Matrix, keep: Double, weight: Double,
    ball: Flag, lower: Double, upper: Double, mask: Bits, stop: Double, cap: Integer, floor: Double, none: Indices,
    strips: Integers, tiles: Integers, parts: Integers, ends: Indices, indices: Indices, values: Vector,
    halves: Matrix, few_pairs: Flags, energy: Doubles, rows: Matrix, squares: Doubles, earlier: Integers,
    all_earlier: Integer, taken: Integers, done: Integers, begun: Integer, glances: Integer, some: Matrix, tile: Matrix,
    work: Vector, bits: BitVector, numbers: DoubleMatrix, supports: IndexMatrix, slopes: Matrix, changes: Matrix,
    used: Indices, weights: Vector,
) -> Integer:  # fmt: skip
    """Take part in absorbing the samples ``Y`` into ``A``, ``B`` and the atoms ``D``.

    ``A`` becomes ``keep A + weight W'W``, and ``B`` likewise ``keep B + weight W'Y``.

    The jobs are, in this order: the strips of ``G = D D'``; greedy codes of the tiles, cut to ``lower`` and ``upper``
    (as :func:`tecu.dictionary.kernels_polish.codes_of` makes them); to see whether few pairs of atoms are used
    together; for each half of the atoms its totals, and if there are few pairs a sweep, in its copy of the atoms in
    ``halves``; for each of the ``parts`` of the samples their misfits, with the atoms that they were coded with; the
    new atoms, by a sweep over all of them if there are many pairs.

    ``energy`` gets the squared coefficients summed by atoms, ``rows`` and ``squares`` the misfits. ``taken`` and
    ``done`` count the jobs that were begun and that are done; none is begun before ``earlier``, which counts those of
    the batch before, has come to ``all_earlier``. Returns ``ALL_TAKEN``, or a job that was begun and whose
    needs were not met within so many glances: it is to be handed in again as ``begun``, which is ``ALL_TAKEN`` at
    first. From ``some`` on it is scratch of the thread's own.
    """
    m, half = D.shape[0], D.shape[0] // 2
    coding = np.int64(strips.size - 1)
    deciding = coding + tiles.size - 1
    sweeping = deciding + 1
    judging = sweeping + 2
    ending = judging + parts.size - 1
    while True:
        job = begun if begun >= 0 else take_next(taken)
        begun = np.int64(ALL_TAKEN)
        if job > ending:
            return ALL_TAKEN
        needs = np.int64(0)
        if job >= coding:
            needs = coding
        if job >= deciding:
            needs = deciding
        if job >= sweeping:
            needs = sweeping
        if job >= ending:
            needs = ending
        patience = glances
        while _glance(earlier) < all_earlier or _glance(done) < needs:
            patience -= 1
            if patience < 0:
                return job
        if job < coding:
            _gram_strip(gemm, syrk, D, G, strips[job], strips[job + 1])
        elif job < deciding:
            first, last = tiles[job - coding], tiles[job - coding + 1]
            own, own_values = indices[first * cap : last * cap], values[first * cap : last * cap]
            count = _code_tile(
                gemm, Y, D, G, D.dtype.type(0), none, own[:0], own_values[:0], mask, stop, 0.0, cap, floor, 2, False,
                first, last, some, tile, work, bits, numbers, supports, own, own_values, np.int64(0), ends,
            )[0]  # fmt: skip
            for s in range(count):
                own_values[s] = min(max(own_values[s], D.dtype.type(lower)), D.dtype.type(upper))
        elif job < sweeping:
            filled = _share_filled(A, np.int64(0), m) if keep > 0 else 0.0
            share = max(filled, _count_pairs(tiles, ends) / (np.float64(m) * m))
            few_pairs[0] = share < FEW_PAIRS
        elif job < judging:
            first, last = np.int64(0), half
            if job > sweeping:
                first, last = half, m
            if keep != 1:
                _shrink(A[first:last], keep)
                _shrink(B[first:last], keep)
            for j in range(first, last):
                energy[j] = -np.float64(A[j, j])
            for i in range(tiles.size - 1):
                own, own_values = indices[tiles[i] * cap :], values[tiles[i] * cap :]
                begin = np.int64(0)
                for p in range(tiles[i], tiles[i + 1]):
                    _add_sample(begin, np.int64(ends[p]), own, own_values, Y[p], weight, False, A, B, first, last)
                    begin = np.int64(ends[p])
            for j in range(first, last):
                energy[j] = (energy[j] + A[j, j]) / weight
            if few_pairs[0] and last > first:
                copy = halves[(job - sweeping) * m : (job - sweeping + 1) * m]
                _copy_rows(D, copy)
                _sweep(gemm, copy, first, last, A, B, ball, slopes, changes, used, weights)
        elif job < ending:
            begin_tile = np.int64(0)
            for p in range(parts[job - judging], parts[job - judging + 1]):
                while tiles[begin_tile + 1] <= p:
                    begin_tile += 1
                begin = np.int64(0)
                if p > tiles[begin_tile]:
                    begin = np.int64(ends[p - 1])
                place = tiles[begin_tile] * cap + begin
                count = np.int64(ends[p]) - begin
                squares[p] = _misfit(Y[p], D, indices[place:], values[place:], count, rows[p])
        elif few_pairs[0]:
            _copy_rows(halves[:half], D[:half])
            _copy_rows(halves[m + half :], D[half:])
        else:
            _sweep(gemm, D, np.int64(0), m, A, B, ball, slopes, changes, used, weights)
        take_next(done)


@routine
def _sweep(
    gemm: Any,
    D: Any,
    first: Any,
    end: Any,
    A: Any,
    B: Any,
    ball: Any,
    slopes: Any,
    changes: Any,
    used: Any,
    weights: Any,
) -> Any:
    """Sweep over the atoms from ``first`` to ``end`` of ``D``, entry by entry or by matrix products."""
    sparse = _share_filled(A, first, end) < SPARSE_TOTALS
    size = end - first if sparse else np.int64(SWEEP_BLOCK)
    zero = D.dtype.type(0)
    return _sweep_range(
        gemm, D, D, first, end, A, B, zero, ball, sparse, slopes[:size], changes, used, weights
    )  # fmt: skip
