"""What a dictionary and codes amount to: the Gram matrix of the atoms, the totals of the codes, the misfit."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu import lipschitz
from tecu.arrays import inner
from tecu.dictionary.coding import Matrix
from tecu.dictionary.workers import Workers
from tecu.protocols import Blocks, Memory

if TYPE_CHECKING:
    from tecu.dictionary.coupling import BatchedFactorization


LARGEST_EXACT = 400
"""Up to this size of the smaller Gram matrix all of its eigenvalues cost less than a power iteration of the larger."""


MANY_ENTRIES = 10_000
"""Codes with fewer entries are not shared out to threads: to meet costs more."""


class Atoms:
    """The atoms as rows, and their Gram matrix."""

    def __init__(self, D: Matrix, team: Workers) -> None:
        self.source = D
        self.rows = np.ascontiguousarray(D.T)
        self.team = team

    @cached_property
    def gram(self) -> Matrix:
        """``D'D``."""
        return self.team.gram(self.rows)

    @cached_property
    def spread(self) -> Matrix:
        """``D D'``."""
        return np.asarray(self.rows.T @ self.rows)

    @cached_property
    def lipschitz(self) -> float:
        """``||D||_2^2``: a function of the dictionary alone, shared by all batches."""
        if min(self.rows.shape) > LARGEST_EXACT:
            return _largest_eigenvalue(self.gram, {})
        small = self.gram if len(self.rows) <= self.rows.shape[1] else self.spread
        return (1.0 + 1e-5) * float(np.linalg.eigvalsh(small)[-1])  # rounding of float32 included


class Totals:
    """``A = W'W`` (folded) and ``B = W'Y`` of all samples, in float64: all that ``H`` as a function of ``D`` needs."""

    def __init__(self, half_square: float, folded: Matrix, B: Matrix) -> None:
        self.half_square, self.folded, self.B = half_square, folded, B  # half_square is 1/2 ||Y||^2

    def unfolded(self, dtype: Any, team: Workers | None = None) -> Matrix:
        """``A``."""
        from tecu.dictionary.kernels_atoms import unfold

        A = np.empty(self.folded.shape, dtype)
        (team or Workers(1)).by_strips(lambda rows: unfold(self.folded, A, rows.start, rows.stop), len(A))
        return A

    def value(self, atoms: Atoms) -> float:
        """``H`` by Gram matrices."""
        from tecu.dictionary.kernels_atoms import inner_product

        gram, D = atoms.gram, atoms.rows

        def part(rows: slice) -> float:
            first, end = rows.start, rows.stop
            fit = 0.5 * inner_product(self.folded, gram, True, first, end)
            return float(fit - inner_product(self.B, D, False, first, end))

        return max(0.0, self.half_square + sum(atoms.team.by_strips(part, len(D))))


class FollowingTotals(Totals):
    """Totals of codes in memory, batch by batch, that follow the codes from visit to visit."""

    def __init__(self, coupling: BatchedFactorization, z: Blocks) -> None:
        n, m = z["D"].shape
        super().__init__(coupling.half_square, np.zeros((m, m)), np.zeros((m, n)))
        self.coupling = coupling
        self._held: dict[str, Any] = {}
        self._changed: list[str] = []  # whose codes came in or went out, in this order
        self._unfolded: Matrix | None = None

    def is_sum_of(self, z: Blocks) -> bool:
        """Whether to sum the codes in ``z`` anew would give the same, bit by bit."""
        names = self.coupling.names
        held = all(self._held.get(name) is z[name] for name in names)
        return held and self._changed == [name for name in names if z[name].nnz]

    def follow(self, z: Blocks) -> None:
        """Take out what has changed since the last call, and put in its successor."""
        from tecu.dictionary.kernels_atoms import add_totals

        changes = []
        for name in self.coupling.names:
            old, new = self._held.get(name), z[name]
            if old is not new:
                Y = self.coupling.batch(name)
                pairs = ((old, -1.0), (new, 1.0))
                moved = [(_sorted(codes), Y, sign) for codes, sign in pairs if codes is not None and codes.nnz]
                changes += moved
                self._changed += [name] * len(moved)
                self._held[name] = new
        if changes:
            self._unfolded = None
            add_totals(changes, self.folded, self.B, self.coupling.team)

    @property
    def _is_zero(self) -> bool:
        return not any(codes.nnz for codes in self._held.values())

    def unfolded(self, dtype: Any, team: Workers | None = None) -> Matrix:
        """``A``, kept until the codes change."""
        if self._unfolded is None or self._unfolded.dtype != dtype:
            self._unfolded = np.zeros(self.folded.shape, dtype) if self._is_zero else super().unfolded(dtype, team)
        return self._unfolded

    def value(self, atoms: Atoms) -> float:
        """``H`` by Gram matrices; without any codes nothing has to be summed."""
        return self.half_square if self._is_zero else super().value(atoms)


def _sorted(codes: Any) -> Any:
    return codes if codes.has_sorted_indices else codes.sorted_indices()


def is_for_kernels(codes: Any) -> bool:
    """Whether indices are as usual; others are rare, and not worth kernels of their own."""
    return bool(codes.indices.dtype == codes.indptr.dtype == np.int32)


def misfits_of(Y: Matrix, codes: Any, D: Matrix) -> tuple[Matrix, Matrix]:
    """``Y - codes @ D`` and the squared lengths of its rows, in float64; codes have 32-bit indices."""
    from tecu.dictionary.kernels_atoms import misfits

    rows, squares = np.empty(Y.shape, D.dtype), np.empty(len(Y))
    misfits(codes.indptr, codes.indices, codes.data, Y, D, rows, squares)
    return rows, squares


def _half_misfit(Y: Matrix, codes: Any, atoms: Matrix, team: Workers | None = None) -> float:
    """``1/2 ||Y - codes @ atoms||^2``, summed in float64."""
    from tecu.dictionary.kernels_atoms import misfits

    squares, indptr, indices = np.empty(len(Y)), codes.indptr, codes.indices
    if not is_for_kernels(codes):
        misfit = codes @ atoms - Y
        return 0.5 * float(inner(misfit, misfit))

    def part(piece: slice) -> None:
        scratch = np.empty((1, Y.shape[1]), atoms.dtype)
        rows = slice(piece.start, piece.stop + 1)
        misfits(indptr[rows], indices, codes.data, Y[piece], atoms, scratch, squares[piece])

    (team if team and len(indices) > MANY_ENTRIES else Workers(1)).map(part, len(Y))
    return 0.5 * float(np.sum(squares))


def _largest_eigenvalue(gram: Matrix, memory: Memory) -> float:
    start = lipschitz.start_vector(len(gram)).astype(gram.dtype)
    diagonal = np.diagonal(gram).astype(np.float64)
    return lipschitz.power_on_diagonal(lambda v: gram @ v, start, memory, diagonal)
