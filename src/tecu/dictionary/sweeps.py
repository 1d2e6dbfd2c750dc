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
    from tecu.dictionary.kernels_atoms import SPARSE_TOTALS, SWEEP_BLOCK, share_filled, sweep_atoms

    m, n = D.shape
    atoms = slice(0, m) if atoms is None else atoms
    ends = atoms.start, atoms.stop
    sparse = share_filled(A, *ends) < SPARSE_TOTALS
    size = atoms.stop - atoms.start if sparse else SWEEP_BLOCK
    slopes, scratch = np.empty((size, n), D.dtype), _scratch(D, 1 if sparse else size)
    gemm = address_of_gemm(D.itemsize)
    return float(sweep_atoms(gemm, D, previous, *ends, A, B, eta, ball, sparse, slopes, *scratch))


def sweep_in_halves(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    team: Workers = ALONE,
    ahead: Sequence[Callable[[], Any]] = (),
) -> tuple[float, list[Any]]:
    """One pass over the atoms, in place, of which each half sees the other as it was.

    So two threads can sweep at once, and any number of them finds the same atoms. Calls that take long are begun
    ``ahead`` of it, so that nobody waits for them at the end. Returns by how much the objective fell, each half taken
    by itself, and the answers of these calls; what both moves together add to it is :func:`bend_between_halves`, for
    the pass need not descend.
    """

    def half(atoms: slice) -> tuple[float, Matrix]:
        own = D.copy()
        return sweep(own, previous, A, B, eta, ball, atoms), own[atoms]

    halves = _halves(len(D))
    found = team.call([*ahead, *(partial(half, atoms) for atoms in halves)])
    swept = found[len(ahead) :]
    for atoms, (_, own) in zip(halves, swept, strict=True):
        D[atoms] = own
    return sum(fell for fell, _ in swept), found[: len(ahead)]


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
