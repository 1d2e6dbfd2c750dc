"""What a dictionary and codes amount to: the Gram matrix of the atoms, the totals of the codes, the misfit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tecu import lipschitz
from tecu.arrays import inner
from tecu.dictionary.coding import Matrix
from tecu.dictionary.workers import Workers
from tecu.protocols import Blocks, Memory

if TYPE_CHECKING:
    from tecu.dictionary.coupling import BatchedFactorization

T = TypeVar("T")

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
            return largest_eigenvalue(self.gram, {})
        small = self.spread if self._is_wide else self.gram
        return (1.0 + 1e-5) * float(np.linalg.eigvalsh(small)[-1])  # rounding of float32 included

    @property
    def _is_wide(self) -> bool:
        """Whether there are more atoms than features."""
        atoms, features = self.rows.shape
        return bool(atoms > features)

    def prepare(self) -> None:
        """Gram matrix and constant by all threads, side by side where neither needs the other."""
        if self._is_wide and self.rows.shape[1] <= LARGEST_EXACT and "gram" not in vars(self):
            vars(self)["gram"] = self.team.gram(self.rows, ahead=[lambda: self.lipschitz])
        _ = self.gram, self.lipschitz


class Totals:
    """``A = W'W`` (folded) and ``B = W'Y`` of all samples, in float64: all that ``H`` as a function of ``D`` needs.

    Changes that are due are made when the totals are read, by the thread that reads them: some atoms are brought up to
    date and looked at while they are in its cache.
    """

    def __init__(self, half_square: float, folded: Matrix, B: Matrix, team: Workers | None = None) -> None:
        self.half_square, self._folded, self._B = half_square, folded, B  # half_square is 1/2 ||Y||^2
        self._team = team or Workers(1)
        self._due: list[tuple[Any, Matrix, float]] = []  # codes that come in or go out, their samples and signs
        self._unfolded: Matrix | None = None
        self._expected: Matrix | None = None  # memory for A, which somebody is going to ask for
        self._begins_anew = False  # whether all that was summed so far is to be forgotten
        self.is_spoiled = False  # by an interruption, with some atoms up to date and others not

    @property
    def folded(self) -> Matrix:
        """``A`` folded."""
        self._catch_up()
        return self._folded

    @property
    def B(self) -> Matrix:
        """``B``, atoms x features."""
        self._catch_up()
        return self._B

    @property
    def _is_zero(self) -> bool:
        return False

    def expect(self, dtype: Any) -> None:
        """``A`` is going to be asked for: whatever looks at the totals next makes it, too."""
        if self._unfolded is None or self._unfolded.dtype != dtype:
            self._unfolded = np.zeros(self._folded.shape, dtype) if self._is_zero else None
            self._expected = None if self._is_zero else np.empty(self._folded.shape, dtype)

    def unfolded(self, dtype: Any) -> Matrix:
        """``A``, kept until the codes change."""
        self.expect(dtype)
        if self._unfolded is None:
            self._by_atoms(lambda atoms: None)
        assert self._unfolded is not None
        return self._unfolded

    def value(self, atoms: Atoms) -> float:
        """``H`` by Gram matrices; without any codes nothing has to be summed."""
        from tecu.dictionary.kernels_atoms import inner_product

        if self._is_zero:
            return self.half_square
        gram, D = atoms.gram, atoms.rows

        def part(rows: slice) -> float:
            first, end = rows.start, rows.stop
            fit = 0.5 * inner_product(self._folded, gram, True, first, end)
            return float(fit - inner_product(self._B, D, False, first, end))

        return max(0.0, self.half_square + sum(self._by_atoms(part)))

    def _catch_up(self) -> None:
        if self._due or self._begins_anew:
            self._by_atoms(lambda atoms: None)

    def _by_atoms(self, look: Callable[[slice], T]) -> list[T]:
        """``look`` at some atoms after the other, up to date."""
        from tecu.dictionary.kernels_atoms import add_totals_of, unfold

        due, A, begins_anew = self._due, self._expected, self._begins_anew

        def catch_up(atoms: slice) -> T:
            if begins_anew:
                self._folded[atoms] = self._B[atoms] = 0.0
            add_totals_of(due, self._folded, self._B, True, atoms)
            if A is not None:
                unfold(self._folded, A, atoms.start, atoms.stop)
            return look(atoms)

        self.is_spoiled = bool(due) or begins_anew
        found = self._team.each(catch_up, self._team.several(len(self._folded)))
        self._due, self._expected, self.is_spoiled, self._begins_anew = [], None, False, False
        self._unfolded = self._unfolded if A is None else A
        return found


class FollowingTotals(Totals):
    """Totals of codes in memory, batch by batch, that follow the codes from visit to visit."""

    def __init__(self, coupling: BatchedFactorization, z: Blocks) -> None:
        n, m = z["D"].shape
        super().__init__(coupling.half_square, np.zeros((m, m)), np.zeros((m, n)), coupling.team)
        self.coupling = coupling
        self._held: dict[str, Any] = {}
        self._changed: list[str] = []  # whose codes came in or went out, in this order

    @property
    def _is_zero(self) -> bool:
        return not any(codes.nnz for codes in self._held.values())

    def begin_anew(self) -> None:
        """Forget all codes. The memory is kept: to have it cleared for each sweep takes one thread milliseconds."""
        self._held, self._changed, self._due, self._unfolded, self._expected = {}, [], [], None, None
        self._begins_anew, self.is_spoiled = True, False

    def fits(self, D: Matrix) -> bool:
        """Whether they are for a dictionary of this shape."""
        return bool(self._B.shape[::-1] == D.shape)

    def is_sum_of(self, z: Blocks) -> bool:
        """Whether to sum the codes in ``z`` anew would give the same, bit by bit."""
        names = self.coupling.names
        held = all(self._held.get(name) is z[name] for name in names)
        return held and self._changed == [name for name in names if z[name].nnz]

    def follow(self, z: Blocks) -> None:
        """What has changed since the last call is to be taken out, and its successor to be put in."""
        for name in self.coupling.names:
            old, new = self._held.get(name), z[name]
            if old is not new:
                Y = self.coupling.batch(name)
                pairs = ((old, -1.0), (new, 1.0))
                moved = [(_sorted(codes), Y, sign) for codes, sign in pairs if codes is not None and codes.nnz]
                self._held[name] = new
                self._due += moved
                self._changed += [name] * len(moved)
                if moved:
                    self._unfolded = self._expected = None


def _sorted(codes: Any) -> Any:
    return codes if codes.has_sorted_indices else codes.sorted_indices()


def is_for_kernels(codes: Any) -> bool:
    """Whether indices are as usual; others are rare, and not worth kernels of their own."""
    return bool(codes.indices.dtype == codes.indptr.dtype == np.int32)


def misfits_of(Y: Matrix, codes: Any, D: Matrix) -> tuple[Matrix, Matrix]:
    """``Y - codes @ D`` and the squared lengths of its rows, in float64; codes have 32-bit indices."""
    from tecu.dictionary.kernels_atoms import misfits

    rows, squares = np.empty(Y.shape, D.dtype), np.empty(len(Y))
    misfits(codes.indptr, codes.indices, codes.data, np.asarray(Y, D.dtype, order="C"), D, rows, squares)
    return rows, squares


def half_misfit(Y: Matrix, codes: Any, atoms: Matrix, team: Workers | None = None) -> float:
    """``1/2 ||Y - codes @ atoms||^2``, summed in float64."""
    from tecu.dictionary.kernels_atoms import misfits

    squares, indptr, indices, Y = np.empty(len(Y)), codes.indptr, codes.indices, np.asarray(Y, atoms.dtype, order="C")
    if not is_for_kernels(codes):
        misfit = codes @ atoms - Y
        return 0.5 * float(inner(misfit, misfit))

    def part(piece: slice) -> None:
        scratch = np.empty((1, Y.shape[1]), atoms.dtype)
        rows = slice(piece.start, piece.stop + 1)
        misfits(indptr[rows], indices, codes.data, Y[piece], atoms, scratch, squares[piece])

    (team if team and len(indices) > MANY_ENTRIES else Workers(1)).map(part, len(Y))
    return 0.5 * float(np.sum(squares))


def rounding_scale(value: float, half_square: float, u: Any, samples: int) -> float:
    """What rounding errors of ``H`` are relative to: the solver allows for ``8 r sqrt(entries)`` times the answer.

    Sums are taken in float64. In float32 the errors are about ``r ||A||``, ``r`` the unit round-off and ``||A||``
    about ``||Y||^2 / sqrt(atoms)``: the Gram matrix is rounded. In float64 the rounding of long sums counts, too: ``r``
    a sample, for of equal samples all are rounded to the same side.
    """
    atoms, size = u.shape[1], math.sqrt(math.prod(u.shape))
    if u.dtype == np.float64:
        return abs(value) + half_square * (4.0 + 4.0 / math.sqrt(atoms) + samples / 8.0) / size
    return (abs(value) + 4.0 * half_square / math.sqrt(atoms)) / size


def largest_eigenvalue(gram: Matrix, memory: Memory) -> float:
    """Of a Gram matrix, by power iteration from the vector of the last call."""
    start = lipschitz.start_vector(len(gram)).astype(gram.dtype)
    diagonal = np.diagonal(gram).astype(np.float64)
    return lipschitz.power_on_diagonal(lambda v: gram @ v, start, memory, diagonal)
