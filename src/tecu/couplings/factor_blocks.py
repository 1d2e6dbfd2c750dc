"""``1/2 ||Y - D W^T||^2`` as a function of one factor: by residual or by Gram matrix.

With ``X`` the block, ``F`` the other factor and ``T`` the data (transposed for the codes) all of it reads
``1/2 ||T - X F^T||^2``, with the gradient ``(X F^T - T) F`` and the second derivative ``V -> V F^T F``.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tecu import arrays, lipschitz
from tecu.arrays import Array
from tecu.couplings.base import QuadraticRestricted, residual_magnitude
from tecu.couplings.diagonal import is_stiefel, quadratic_weight
from tecu.protocols import Blocks, Memory, Restricted, Term

if TYPE_CHECKING:
    from tecu.couplings.factorization import MatrixFactorization

REFRESH = 1e-2  # a value this much smaller than the anchor's has lost two digits: take a new anchor
GRAM_VALUE_FLOOR = 1e-3  # of 1/2 ||Y||^2: a value below this is not taken from Gram matrices
SCATTER = 8.0  # a multiplication in a sparse-sparse product costs about as much as this many in a dense one


class FactorRestricted(QuadraticRestricted):
    """The parts that the ways of computing have in common."""

    def __init__(self, coupling: MatrixFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.is_codes = block == coupling.codes
        self.factor: Array = z[coupling.dictionary if self.is_codes else coupling.codes]
        self.Y: Array = coupling.data.like(self.factor)
        self.data, self.method = coupling.data, coupling.method
        self.codes, self.dictionary = coupling.codes, coupling.dictionary
        self.spent = 0.0  # multiplications for products that the Gram matrix would have made cheaper
        self._gram: Array | None = None

    # -- products; always in the orientation and memory order of Y, so that nothing is copied ---------------------

    def fit(self, u: Array) -> Array:
        """``D W^T`` with ``u`` in the place of the block."""
        D, W = (self.factor, u) if self.is_codes else (u, self.factor)
        if arrays.is_sparse(W) or (isinstance(self.Y, np.ndarray) and not self.Y.flags.c_contiguous):
            return (W @ D.T).T
        return D @ W.T

    def back(self, R: Array) -> Array:
        """``R W`` for the dictionary, ``R^T D`` for the codes."""
        return arrays.dense((R.T if self.is_codes else R) @ self.factor)

    def misfit(self, u: Array) -> Array:
        """``D W^T - Y``."""
        fit = self.fit(u)
        if isinstance(fit, np.ndarray) and fit.dtype == self.Y.dtype:
            fit -= self.Y  # its own memory: no third matrix of the size of Y
            return fit
        return fit - self.Y

    # -- the Gram matrix, and when it pays -----------------------------------------------------------------------

    @property
    def gram(self) -> Array:
        """``F^T F``, computed once."""
        if self._gram is None:
            self._gram = arrays.dense(self.factor.T @ self.factor)
        return self._gram

    def gram_matrix(self) -> Array | None:
        """The matrix ``A`` with ``hessian(V) = V A``; strategies may factor it."""
        return self.gram

    def direct_cost(self, u: Array) -> float:
        """Multiplications of ``(u F^T) F``."""
        n, p = self.data.shape
        if arrays.is_sparse(self.factor):
            return 2.0 * n * float(self.factor.nnz)
        stored = float(u.nnz) if arrays.is_sparse(u) else float(u.shape[0] * u.shape[1])
        return stored * float(self.factor.shape[0]) + float(n) * p * float(self.factor.shape[1])

    def prefer_gram(self, u: Array) -> bool:
        """Whether ``u F^T F`` is now best computed through the Gram matrix.

        It is built once the products done without it have cost as much as building it: never more than twice the
        cheapest way, however many products are asked for.
        """
        if self._gram is not None:
            return True
        m = self.factor.shape[1]
        stored = float(u.nnz) if arrays.is_sparse(u) else float(u.shape[0] * m)
        direct = self.direct_cost(u)
        if arrays.is_sparse(self.factor):
            setup = SCATTER * float(self.factor.nnz) ** 2 / self.factor.shape[0]
        else:
            setup = 0.5 * self.factor.shape[0] * float(m) ** 2
        if stored * m < direct and self.spent >= setup:
            return True
        self.spent += direct
        return False

    def hessian(self, v: Array) -> Array:
        """``V F^T F``."""
        if self.prefer_gram(v):
            return arrays.dense(v @ self.gram)
        return self.back(self.fit(v))

    def lipschitz(self, memory: Memory) -> float:
        """``||F||_2^2``."""
        if self.method == "power" and self._gram is not None:
            gram = self._gram
            start = arrays.from_numpy(lipschitz.start_vector(gram.shape[0]), gram)
            diagonal = np.diagonal(arrays.host(arrays.dense(gram))).astype(np.float64)
            return lipschitz.power_on_diagonal(lambda v: gram @ v, start, memory, diagonal)
        if self.method == "gram" and self.factor.shape[1] <= self.factor.shape[0]:
            return lipschitz.largest_eigenvalue(self.gram, memory)
        return lipschitz.largest_singular_square(self.factor, self.method, memory)

    def curvature(self) -> float | Array | None:
        """``c`` where ``F^T F = c I``: one column, or orthonormal ones."""
        gram = arrays.host(self.gram)
        c = float(np.trace(gram, dtype=np.float64)) / gram.shape[0]
        rest = float(np.max(np.abs(gram - c * np.eye(gram.shape[0], dtype=gram.dtype))))
        size = float(self.factor.shape[0] * self.factor.shape[1])
        return c if rest <= 32.0 * arrays.unit_roundoff(self.gram) * np.sqrt(size) * c else None

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser, where there is one in closed form; see :class:`MatrixFactorization`."""
        previous = self.z[self.block]
        if is_stiefel(term) and not self.is_codes:
            # ||D W^T|| and ||D|| are the same for all D with orthonormal columns: what is left is -<D, Y W + eta D0>.
            target = self.back(self.Y) + eta * previous
            return arrays.as_kind(term.prox(target, 1.0), previous)
        weight = quadratic_weight(term)
        if weight is None:
            return super().minimize(term, eta)
        descent = -arrays.host(self.grad(previous)) - weight * arrays.host(arrays.dense(previous))
        system = arrays.host(self.gram) + (eta + weight) * np.eye(self.factor.shape[1], dtype=descent.dtype)
        step = solve_symmetric(system, descent.T, regular=eta + weight > 0.0).T
        return arrays.as_kind(previous + arrays.from_numpy(step, previous), previous)


def solve_symmetric(system: Array, right: Array, regular: bool) -> Array:
    """The solution of a symmetric system; the shortest one where there are several."""
    if regular:
        return np.linalg.solve(system, right)
    return np.linalg.lstsq(system, right, rcond=None)[0]


class AnchoredFactor(FactorRestricted):
    """By residual at the first point of a visit (the anchor); later points by their difference from it.

    ``H(u) = H(u0) + <g0 + d A / 2, d>`` and ``grad(u) = g0 + d A`` with ``d = u - u0`` and ``A = F^T F``.
    """

    def __init__(self, coupling: MatrixFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self._point: Array | None = None
        self._value = 0.0
        self._misfit: Array | None = None
        self._inherited: Array | None = None  # the misfit at the block's own value, from the visit before
        self._gradient: Array | None = None

    def _anchor(self, u: Array) -> None:
        known = self._inherited if u is self.z[self.block] else None
        self._misfit = self.misfit(u) if known is None else known
        self._value = 0.5 * arrays.inner(self._misfit, self._misfit)
        self._inherited = None
        # A strategy may change its own u later, nobody changes the block itself.
        self._point = u if u is self.z[self.block] else arrays.copy(u)
        self._gradient = None

    def _anchor_gradient(self) -> Array:
        if self._gradient is None:
            self._gradient = self.back(self._misfit)
            self._misfit = None
            self.spent += self.direct_cost(self._point)
        return self._gradient

    def _is_anchor(self, u: Array) -> bool:
        if self._point is None:
            self._anchor(u)
            return True
        return u is self._point or _equal(u, self._point)

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        if self._is_anchor(u):
            return self._value
        if self._gram is None or self._gradient is None:
            misfit = self.misfit(u)
            return 0.5 * arrays.inner(misfit, misfit)
        return self.value_and_grad(u)[0]

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        if self._is_anchor(u):
            return self._anchor_gradient()
        first = self._anchor_gradient()
        if self.prefer_gram(u):
            return _add_in_place(arrays.dense((u - self._point) @ self.gram), first)
        return self.back(self.misfit(u))

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the gradient."""
        if self._is_anchor(u):
            return self._value, self._anchor_gradient()
        first = self._anchor_gradient()
        if not self.prefer_gram(u):
            misfit = self.misfit(u)
            return 0.5 * arrays.inner(misfit, misfit), self.back(misfit)
        move = u - self._point
        change = arrays.dense(move @ self.gram)
        value = self._value + arrays.inner(move, first) + 0.5 * arrays.inner(move, change)
        if value < REFRESH * self._value:
            self._anchor(u)
            return self._value, self._anchor_gradient()
        return value, _add_in_place(change, first)

    def settle(self, u: Array) -> float:
        """``H`` at the new value, from a residual that serves the next visit as well."""
        if self._misfit is None or u is not self._point:
            self._misfit, self._point = self.misfit(u), u
            self._value = 0.5 * arrays.inner(self._misfit, self._misfit)
        self._gradient = self._gram = None  # nobody will ask again
        return self._value

    def inherit(self, settled: Restricted) -> None:
        """The residual of the visit before, if it ended where this one starts and in the same precision."""
        if not isinstance(settled, AnchoredFactor) or settled._misfit is None or settled.Y is not self.Y:
            return
        theirs = {**settled.z, settled.block: settled._point}
        if all(theirs[block] is self.z[block] for block in (self.codes, self.dictionary)):
            self._inherited = settled._misfit

    def magnitude(self, value: float) -> float:
        """The values involved, and what the rounding of ``D W^T - Y`` adds to them."""
        return residual_magnitude(max(abs(value), self._value), self.data, self.factor)


class GramFactor(FactorRestricted):
    """By Gram matrices from the start: ``grad(u) = u A - B`` with ``A = F^T F``, ``B = T F``. For sparse data.

    ``H(u) = 1/2 ||T||^2 + <u, u A / 2 - B>``, unless that cancels and the data are dense.
    """

    @cached_property
    def cross(self) -> Array:
        """``T F``."""
        return self.back(self.Y)

    def prefer_gram(self, u: Array) -> bool:
        """Always."""
        return True

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        product = arrays.dense(u @ self.gram)
        if isinstance(product, np.ndarray):
            product -= self.cross
            return product
        return product - self.cross

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        return self.value_and_grad(u)[0]

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the gradient."""
        gradient = self.grad(u)
        half = 0.5 * self.data.square()
        value = half + 0.5 * (arrays.inner(u, gradient) - arrays.inner(u, self.cross))
        if not arrays.is_sparse(self.Y) and value < GRAM_VALUE_FLOOR * half:
            misfit = self.misfit(u)
            value = 0.5 * arrays.inner(misfit, misfit)
        return value, gradient

    def magnitude(self, value: float) -> float:
        """``1/2 ||Y||^2`` is among the numbers summed, and so are the products in ``<u, u A>``."""
        half = 0.5 * self.data.square()
        if not arrays.is_sparse(self.Y) and value < GRAM_VALUE_FLOOR * half:
            return residual_magnitude(value, self.data, self.factor)
        return abs(value) + half + self._products

    @cached_property
    def _products(self) -> float:
        """``||u||^2 ||A|| / 2`` a root of the entries: factors that nearly cancel may be large where ``H`` is small."""
        u = self.z[self.block]
        size = arrays.norm(u)
        return 0.5 * size * size * arrays.norm(self.gram) / math.sqrt(math.prod(u.shape))


def _add_in_place(own: Array, other: Array) -> Array:
    """``own + other``, in the memory of ``own`` where that can be: a large new array costs as much as the sum."""
    if isinstance(own, np.ndarray):
        own += other
        return own
    return own + other


def _equal(u: Array, point: Array) -> bool:
    if arrays.is_sparse(u):
        return u.nnz == point.nnz and all(
            np.array_equal(getattr(u, part), getattr(point, part)) for part in ("data", "indices", "indptr")
        )
    return bool(np.array_equal(arrays.host(u), arrays.host(point)))
