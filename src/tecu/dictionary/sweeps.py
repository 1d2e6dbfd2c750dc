"""Column sweeps: exact minimisation over one atom after the other, on the totals of the codes.

As a function of the dictionary the objective is ``1/2 <A, DD'> - <B, D>``, ``A = W'W`` and ``B = W'Y``. Atoms are rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tecu.dictionary.coding import ALONE, Matrix
from tecu.dictionary.workers import Workers

LARGE_TOTALS = 40  # totals between 2^-40 and 2^40 are taken as they are

SWEEP_BLOCK, BLOCKS_A_MEETING = 96, 3
"""Atoms between two matrix products of a column sweep, and such blocks between two meetings of threads."""

LARGE_SWEEP = 1 << 28
"""Products of a sweep with fewer multiplications are for one thread: to meet takes longer than it brings."""

SPARSE_TOTALS, ROWS_SEEN = 0.2, 32
"""Totals with fewer entries than this share, by so many of their rows, are swept over entry by entry."""


def sweep(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    team: Workers = ALONE,
) -> float:
    """One pass of exact minimisation over the atoms, in place; returns by how much the objective fell.

    Atom ``j`` becomes the minimiser of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - previous||^2`` over the unit sphere (or
    ball), the others held. Blocks of atoms share one matrix product: the same iterates, faster. Threads take several
    blocks at a time, so that they meet less often, and leave small sweeps to one of them.
    """
    from tecu.dictionary.kernels_atoms import sweep_block

    exponent = _exponent(B)
    if exponent:
        A, B = (np.ldexp(total, -exponent) for total in (A, B))
        return float(np.ldexp(sweep(D, previous, A, B, math.ldexp(eta, -exponent), ball, team), exponent))
    m, n = D.shape
    if has_few_entries(A):
        return _sweep_entries(D, previous, A, B, eta, ball, slice(0, m))
    scratch = _scratch(D, SWEEP_BLOCK)
    eta = D.dtype.type(eta)
    team = team if A.size * n > LARGE_SWEEP else ALONE
    size = SWEEP_BLOCK * (1 if team.count == 1 else BLOCKS_A_MEETING)
    slopes, before = np.empty((size, n), D.dtype), np.empty((size, n), D.dtype)
    descent = 0.0
    for first in range(0, m, size):
        end = min(first + size, m)
        U = slopes[: end - first]
        team.map(partial(_slopes, D, A[first:end], B[first:end], U), n)
        before[: end - first] = D[first:end]
        for a in range(first, end, SWEEP_BLOCK):
            b = min(a + SWEEP_BLOCK, end)
            descent += sweep_block(D, previous, a, U[a - first : b - first], A, B, eta, ball, False, *scratch)
            if b < end:  # what the later blocks of this meeting have to know of it
                U[b - first :] -= A[b:end, a:b] @ (D[a:b] - before[a - first : b - first])
    return descent


def sweep_in_halves(
    D: Matrix,
    A: Matrix,
    B: Matrix,
    add: Callable[[slice], object],
    ball: bool = False,
    team: Workers = ALONE,
    beside: Sequence[Callable[[], Any]] = (),
) -> list[Any]:
    """Totals brought up to date, then one pass over the atoms, in place, which need not descend.

    ``add`` writes the rows of ``A`` and ``B`` that belong to some atoms. Each half of the atoms sees the other half as
    it was: two threads can add and sweep at once, and any number of them finds the same atoms. It is for totals with
    few entries, which are few pairs of atoms that have to agree. Meanwhile the calls ``beside`` it, which see ``D`` as
    it was, go to whichever thread is free; returns their answers.
    """

    def half(atoms: slice) -> Matrix:
        add(atoms)
        own, exponent, squares, products = D.copy(), _exponent(B[atoms]), A, B
        if exponent:  # of these rows only: the others belong to another thread
            squares, products = np.zeros_like(A), np.zeros_like(B)
            squares[atoms], products[atoms] = np.ldexp(A[atoms], -exponent), np.ldexp(B[atoms], -exponent)
        _sweep_entries(own, own, squares, products, 0.0, ball, atoms)
        return own[atoms]

    m = len(D)
    halves = slice(0, m // 2), slice(m // 2, m)
    first, second, *answers = team.call([*(partial(half, atoms) for atoms in halves), *beside])
    D[halves[0]], D[halves[1]] = first, second
    return answers


def _exponent(B: Matrix) -> int:
    """Of the power of two by which totals are divided, so that lengths stay in the range of float32; mostly none."""
    largest = max(np.max(B, initial=0.0), -np.min(B, initial=0.0))  # without a copy
    exponent = int(np.frexp(largest)[1])
    return exponent if abs(exponent) > LARGE_TOTALS else 0


def _sweep_entries(D: Matrix, previous: Matrix, A: Matrix, B: Matrix, eta: float, ball: bool, atoms: slice) -> float:
    """A sweep over some atoms by the entries of ``A`` that are not zero."""
    from tecu.dictionary.kernels_atoms import sweep_block

    slopes = np.empty((atoms.stop - atoms.start, D.shape[1]), D.dtype)
    number = D.dtype.type
    return float(
        sweep_block(D, previous, atoms.start, slopes, A, B, number(eta), ball, True, *_scratch(D, 1))
    )  # fmt: skip


def _scratch(D: Matrix, atoms: int) -> tuple[Matrix, Matrix, Matrix]:
    m, n = D.shape
    return np.zeros((atoms, n), D.dtype), np.arange(m + 1, dtype=np.int32), np.empty(m, D.dtype)


def has_few_entries(A: Matrix, more: int = 0) -> bool:
    """Whether a column sweep on such totals goes entry by entry; ``more`` entries are going to be added to them."""
    if more >= SPARSE_TOTALS * A.size:
        return False
    some = A[:: max(1, len(A) // ROWS_SEEN)] != 0  # truth values: to count floats takes eight times as long
    return bool(np.count_nonzero(some) < SPARSE_TOTALS * some.size)


def _slopes(D: Matrix, A: Matrix, B: Matrix, U: Matrix, columns: slice) -> None:
    """``U = B - A D`` for some features."""
    product = np.matmul(A, D[:, columns], out=U[:, columns])
    np.subtract(B[:, columns], product, out=product)
