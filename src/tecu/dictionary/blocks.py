"""``H`` of dictionary learning as a function of one block: the codes of a batch, or the dictionary."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu.arrays import inner, is_sparse
from tecu.couplings.base import QuadraticRestricted
from tecu.dictionary.coding import Matrix
from tecu.dictionary.totals import half_misfit, is_for_kernels, largest_eigenvalue, misfits_of
from tecu.protocols import Blocks, Memory

if TYPE_CHECKING:
    from tecu.dictionary.coupling import BatchedFactorization


class CodesOfBatch(QuadraticRestricted):
    """``H`` as a function of the codes of one batch, ``W_b``: gradient ``W_b G - Y_b D``, ``G = D'D``."""

    coupling: BatchedFactorization

    def __init__(self, coupling: BatchedFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.previous = z[block]
        self.atoms = coupling.atoms(z["D"])

    @property
    def gram(self) -> Matrix:
        """``G``."""
        return self.atoms.gram

    @cached_property
    def samples(self) -> Matrix:
        """``Y_b``."""
        return self.coupling.batch(self.block)

    def correlations(self, piece: slice = slice(None)) -> Matrix:
        """``Y_b D`` of some samples, in memory of its own."""
        return np.asarray(self.samples[piece] @ self.atoms.rows.T)

    @cached_property
    def _value(self) -> float:
        return self.coupling.value_by_totals(self.block, self.z)

    @cached_property
    def _misfit(self) -> float:
        return self._half_misfit(self.previous)

    def _half_misfit(self, u: Any) -> float:
        return half_misfit(self.samples, u, self.atoms.rows, self.coupling.team)

    def value(self, u: Any) -> float:
        """``H(u, others)``: the value at the block's old codes, plus what this batch changes."""
        if u is self.previous:
            return self._value
        return self._value + self._half_misfit(u) - self._misfit

    def settle(self, u: Any) -> float:
        """``H(u, others)``. All threads prepare the atoms here: in the tests and visits of blocks one would have to."""
        self.atoms.prepare()
        return self.value(u)

    def grad(self, u: Any) -> Matrix:
        """``(u D' - Y_b) D``."""
        Y, D, team = self.samples, self.atoms.rows, self.coupling.team
        gradient = np.empty((len(Y), len(D)), D.dtype)

        def slopes(piece: slice) -> None:
            part = u if piece.stop - piece.start == len(Y) else u[piece]
            np.matmul(part @ D - Y[piece], D.T, out=gradient[piece])

        team.map(slopes, len(Y))
        return gradient

    def grad_entries(self, u: Any, rows: Matrix, columns: Matrix) -> Matrix:
        """The gradient at a few places."""
        from tecu.dictionary.kernels_audit import products_at

        Y, D = self.samples, self.atoms.rows
        misfits = misfits_of(Y, u, D)[0] if is_for_kernels(u) else Y - u @ D
        entries = np.empty(len(rows), D.dtype)
        products_at(misfits, D, rows, columns, entries)
        return np.negative(entries, out=entries)

    def hessian(self, v: Any) -> Any:
        """``v G``; of a ``v`` with few rows that are not zero, as directions of tests have, a CSR array of these.

        A dense one is the largest array of all, and mostly zeros: to have the memory takes longer than the product.
        """
        if not is_sparse(v):
            return np.asarray(v @ self.gram)
        stored = np.diff(v.indptr) > 0
        used, (samples, m) = np.flatnonzero(stored), v.shape
        rows = type(v)((v.data, v.indices, np.append(v.indptr[used], v.indptr[-1])), shape=(len(used), m))
        found = rows @ self.gram
        if 2 * len(used) > samples:
            product = np.zeros(v.shape, self.gram.dtype)
            product[used] = found
            return product
        index = v.indices.dtype if len(used) * m < np.iinfo(v.indices.dtype).max else np.int64
        ends = np.append(0, np.cumsum(stored)) * m
        whole = np.tile(np.arange(m, dtype=index), len(used))
        product = type(v)((found.reshape(-1), whole, ends.astype(index)), shape=v.shape)
        product.has_canonical_format = True
        return product

    def magnitude(self, value: float) -> float:
        """The size of the numbers that were summed."""
        return self.coupling.magnitude(value, self.previous)

    def lipschitz(self, memory: Memory) -> float:
        """``||D||_2^2``."""
        return self.atoms.lipschitz


class Dictionary(QuadraticRestricted):
    """``H`` as a function of ``D``: gradient ``D A - B``, transposed, from the totals."""

    coupling: BatchedFactorization
    _curvature: float | None = None

    def __init__(self, coupling: BatchedFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.previous = z[block]

    @cached_property
    def _totals(self) -> tuple[Matrix, Matrix, float]:
        coupling, dtype = self.coupling, self.previous.dtype
        with coupling._lock:
            totals = coupling.totals(self.z)
            totals.expect(dtype)
            value = coupling.value_by_totals(self.block, self.z)
            return totals.unfolded(dtype), totals.B.astype(dtype), value

    @property
    def A(self) -> Matrix:
        """``A = W'W`` in the block's precision."""
        return self._totals[0]

    @property
    def B(self) -> Matrix:
        """``B = W'Y`` (atoms x features) in the block's precision."""
        return self._totals[1]

    def value(self, u: Matrix) -> float:
        """``H(u, others)``."""
        if u is self.previous:
            return self._totals[2]
        middle = np.ascontiguousarray((0.5 * (u + self.previous)).T)  # there a quadratic has its mean slope on the way

        def rise(rows: slice) -> float:
            return inner(self._slopes(middle, rows), (u - self.previous).T[rows])

        return self._totals[2] + sum(self.coupling.team.map(rise, len(middle)))

    def grad(self, u: Matrix) -> Matrix:
        """``u A - B'``."""
        if not self._any_codes:
            return np.zeros_like(u)
        atoms = np.ascontiguousarray(u.T)
        slopes = np.empty_like(atoms)
        self.coupling.team.map(lambda rows: self._slopes(atoms, rows, slopes[rows]), len(atoms))
        return slopes.T

    def _slopes(self, atoms: Matrix, rows: slice, out: Matrix | None = None) -> Matrix:
        """The gradient at ``atoms``, which are rows here, in some of them."""
        found = np.matmul(self.A[rows], atoms, out=out)
        found -= self.B[rows]
        return found

    def value_and_grad(self, u: Matrix) -> tuple[float, Matrix]:
        """Value and gradient for the price of the gradient."""
        gradient = self.grad(u)
        if u is self.previous:
            return self._totals[2], gradient
        move = u - self.previous
        start = self._start
        return self._totals[2] + 0.5 * (inner(start, move) + inner(gradient, move)), gradient

    @cached_property
    def _start(self) -> Matrix:
        return self.grad(self.previous)

    def hessian(self, v: Matrix) -> Matrix:
        """``v A``."""
        if not self._any_codes:
            return np.zeros_like(v)
        return self.coupling.team.product(self.A, np.ascontiguousarray(v.T)).T

    @cached_property
    def largest_total(self) -> float:
        """``max_j ||w_j||^2`` over the atoms: at most ``||W||_2^2``, and zero only without any codes."""
        return float(np.max(np.diagonal(self.A), initial=0.0))

    @property
    def _any_codes(self) -> bool:
        """At most starts there are none, and nothing has to be multiplied."""
        return self.largest_total != 0.0

    def magnitude(self, value: float) -> float:
        """The size of the numbers that were summed."""
        return self.coupling.magnitude(value, self.previous)

    def lipschitz(self, memory: Memory) -> float:
        """``||W||_2^2``, computed once."""
        if self._curvature is None:
            self._curvature = largest_eigenvalue(self.A, memory)
        return self._curvature
