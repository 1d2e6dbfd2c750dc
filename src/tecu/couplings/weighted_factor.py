"""``1/2 <M, (Y - D W^T)^2>``, matrix factorisation with weights, as a function of one factor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tecu import arrays, lipschitz
from tecu.arrays import Array
from tecu.couplings.base import QuadraticRestricted
from tecu.couplings.diagonal import quadratic_weight
from tecu.couplings.factor_blocks import FactorRestricted, solve_symmetric
from tecu.protocols import Blocks, Memory, Term

if TYPE_CHECKING:
    from tecu.couplings.factorization import MatrixFactorization


class WeightedFactor(FactorRestricted):
    """``1/2 <M, (X F^T - T)^2>`` with weights ``M``: by residual, each row of ``X`` has its own second derivative."""

    def __init__(self, coupling: MatrixFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        assert coupling.weights is not None
        self.weights: Array = coupling.weights.like(self.factor)

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        misfit = self.misfit(u)
        return 0.5 * arrays.inner(misfit, self.weights * misfit)

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return self.back(self.weights * self.misfit(u))

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the gradient."""
        misfit = self.misfit(u)
        weighted = self.weights * misfit
        return 0.5 * arrays.inner(misfit, weighted), self.back(weighted)

    def hessian(self, v: Array) -> Array:
        """``(M * (V F^T)) F``."""
        return self.back(self.weights * self.fit(v))

    def gram_matrix(self) -> None:
        """``None``: each row has its own."""
        return None

    def row_grams(self) -> np.ndarray[Any, Any]:
        """``F^T diag(M_i) F`` for every row ``i`` of the block, ``rows x m x m``."""
        F = arrays.host(arrays.dense(self.factor))
        M = arrays.host(self.weights)
        M = M.T if self.is_codes else M
        return np.stack([(F * row[:, None]).T @ F for row in M])

    def lipschitz(self, memory: Memory) -> float:
        """The largest eigenvalue of ``F^T diag(M_i) F`` over the rows ``i``."""
        if self.method != "power":
            lipschitz.count_products(memory, 1)
            return max(float(np.max(np.linalg.eigvalsh(self.row_grams()))), 0.0)
        rows, m = self.z[self.block].shape
        like = arrays.dense(self.factor)
        start = arrays.from_numpy(np.tile(lipschitz.start_vector(m), (rows, 1)), like)
        return lipschitz.power_iteration(self.hessian, start, memory, by_row=True)

    def curvature(self) -> float | Array | None:
        """The second derivative of a single column."""
        if self.factor.shape[1] != 1:
            return None
        square = arrays.dense(self.factor) ** 2
        return (self.weights.T if self.is_codes else self.weights) @ square

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser for one column, ``Zero`` and ``SquaredL2``."""
        weight = quadratic_weight(term)
        if weight is None:
            return QuadraticRestricted.minimize(self, term, eta)
        previous = self.z[self.block]
        descent = -arrays.host(self.grad(previous)) - weight * arrays.host(arrays.dense(previous))
        shift = (eta + weight) * np.eye(self.factor.shape[1], dtype=descent.dtype)
        regular = eta + weight > 0.0
        step = np.stack(
            [solve_symmetric(G + shift, d, regular) for G, d in zip(self.row_grams(), descent, strict=True)]
        )
        return arrays.as_kind(previous + arrays.from_numpy(step, previous), previous)
