"""Column sweeps: exact minimisation over one atom after the other, on the totals of the codes.

As a function of the dictionary the objective is ``1/2 <A, DD'> - <B, D>``, ``A = W'W`` and ``B = W'Y``. Atoms are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tecu.arrays import inner
from tecu.dictionary.coding import ALONE, Matrix
from tecu.dictionary.compiled import address_of_gemm
from tecu.dictionary.workers import Workers

SWEEP_BLOCK = 96
"""Atoms between two matrix products of a column sweep."""

SPARSE_TOTALS, ROWS_SEEN = 0.2, 32
"""Totals of which less than this share is filled, by so many of their rows, are swept over entry by entry."""


def sweep(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    atoms: slice | None = None,
) -> float:
    """One pass of exact minimisation over the atoms, in place; returns by how much the objective fell.

    Atom ``j`` becomes the minimiser of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - previous||^2`` over the unit sphere (or
    ball), the others held. Blocks of atoms share one matrix product: the same iterates, faster. A pass over some
    ``atoms`` reads only their rows of the totals.
    """
    from tecu.dictionary.kernels_atoms import sweep_atoms

    m, n = D.shape
    atoms = slice(0, m) if atoms is None else atoms
    sparse = filled(A, atoms) < SPARSE_TOTALS
    size = atoms.stop - atoms.start if sparse else SWEEP_BLOCK
    slopes, scratch = np.empty((size, n), D.dtype), _scratch(D, 1 if sparse else size)
    gemm, ends = address_of_gemm(D.itemsize), (atoms.start, atoms.stop)
    return float(sweep_atoms(gemm, D, previous, *ends, A, B, eta, ball, sparse, slopes, *scratch))


def sweep_in_halves(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    team: Workers = ALONE,
    add: Callable[[slice], object] = lambda atoms: None,
    beside: Sequence[Callable[[], Any]] = (),
    ahead: Sequence[Callable[[], Any]] = (),
) -> tuple[float, list[Any]]:
    """One pass over the atoms, in place, of which each half sees the other as it was.

    So two threads can sweep at once, and any number of them finds the same atoms. Before that, ``add`` may write the
    rows of ``A`` and ``B`` that belong to some atoms. Meanwhile the calls ``beside`` it, which see ``D`` as it was, go
    to whichever thread is free; longer ones are begun ``ahead``, so that nobody waits for them at the end. Returns by
    how much the objective fell, each half taken by itself, and the answers of both kinds of calls; what both moves
    together add to it is :func:`bend_between_halves`, for the pass need not descend.
    """

    def half(atoms: slice) -> tuple[float, Matrix]:
        add(atoms)
        own = D.copy()
        return sweep(own, previous, A, B, eta, ball, atoms), own[atoms]

    halves, first = _halves(len(D)), len(ahead)
    found = team.call([*ahead, *(partial(half, atoms) for atoms in halves), *beside])
    swept = found[first : first + 2]
    for atoms, (_, own) in zip(halves, swept, strict=True):
        D[atoms] = own
    return sum(fell for fell, _ in swept), found[:first] + found[first + 2 :]


def bend_between_halves(A: Matrix, move: Matrix, team: Workers = ALONE) -> list[Callable[[], float]]:
    """Calls whose sum is ``<A_12 move_2, move_1>`` for the halves of the atoms, one for each thread."""
    first, second = _halves(len(A))

    def part(rows: slice) -> float:
        return inner(A[rows, second] @ move[second], move[rows])

    return [partial(part, rows) for rows in team.slices(first.stop)]


def _halves(m: int) -> tuple[slice, slice]:
    return slice(0, m // 2), slice(m // 2, m)


def _scratch(D: Matrix, atoms: int) -> tuple[Matrix, Matrix, Matrix]:
    m, n = D.shape
    return np.zeros((atoms, n), D.dtype), np.empty(m + 1, np.int32), np.empty(m, D.dtype)


def filled(A: Matrix, atoms: slice | None = None) -> float:
    """The share of the entries of totals that are not zero, by some of their rows; of no atoms all of them."""
    from tecu.dictionary.kernels_atoms import count_entries

    first, end = (0, len(A)) if atoms is None else (atoms.start, atoms.stop)
    step = max(1, (end - first) // ROWS_SEEN)
    size = len(range(first, end, step)) * A.shape[1]
    return count_entries(A, first, end, step) / size if size else 1.0
