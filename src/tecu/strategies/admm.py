"""The alternating direction method of multipliers on one block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.settings import is_number, plain
from tecu.strategies.gram import Matrix, gram_matrix
from tecu.strategies.prox_gradient import REFRESH
from tecu.subproblem import SubProblem

Solve = Callable[[Array, Array], Array]
"""``(v, r) -> d`` with ``(hessian + rho) d = -r``, exactly or nearly: the ``x``-step is ``x = v + d``."""

CG_REDUCTION, CG_STEPS = 0.1, 30
DUAL, GROWN = "admm_dual", "admm_growth"  # what the memory keeps
PATIENCE, GROWTH, LARGEST_GROWTH = 10, 2.0, 64.0


class ADMM:
    r"""``min term(v) + phi(x)`` subject to ``x = v``, with the scaled dual ``w``::

        x = argmin phi(x) + rho/2 ||x - v + w||^2
        v = prox(x + w, 1 / rho)
        w = w + x - v

    The ``x``-step begins at ``v``: ``x = v - (hessian + rho)^{-1} (grad phi(v) + rho w)``. The inverse is a Cholesky
    factor, made once a visit, where the coupling has a Gram matrix; conjugate gradients where ``phi`` is quadratic
    otherwise; a division by ``L + rho`` where it is not. The proposals are the ``v`` with their gradients, which
    the next ``x``-step needs anyway. The dual ``rho w`` stays in the block's memory for the next visit.

    Parameters
    ----------
    rho
        The penalty; ``None`` takes the mean eigenvalue of the Gram matrix, or the Lipschitz constant (half of it for a
        convex term). A non-convex term may need more: it is doubled when ten steps bring ``x`` and ``v`` no closer.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(2)), {"W": terms.L1(0.5), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 2)), "D": np.eye(2)}, eta=1.0)
    >>> proposals = strategies.ADMM()(sub, sub.previous)
    >>> for _ in range(40):
    ...     best = next(proposals).u
    >>> best.round(6).tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """

    endless = True

    def __init__(self, rho: float | None = None) -> None:
        if rho is not None and not (is_number(rho) and 0 < rho < math.inf):
            raise ValueError(f"ADMM needs a finite rho > 0, or None, got rho={rho!r}")
        self.rho: float | None = plain(rho)

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield the ``v``."""
        gram = gram_matrix(sub) if sub.is_quadratic else None
        rho = self._penalty(sub, u, gram)
        solve = _smooth_step(sub, gram, rho)
        v, w = u, _dual(sub) / rho
        gradient, gap = sub.grad(v), math.inf
        for k in count(1):
            shifted = v + solve(v, gradient + rho * w) + w
            v, before = sub.prox(shifted, 1.0 / rho), v
            w, last = shifted - v, w
            sub.memory[DUAL] = arrays.host(rho * w)
            product = None if k % REFRESH == 0 else sub.hessian(v - before)
            gradient = sub.grad(v) if product is None else gradient + product
            yield Candidate(v, gradient)
            if k % PATIENCE == 0 and self.rho is None and not sub.term.is_convex:
                gap, old = arrays.distance(w, last) + arrays.distance(v, before), gap
                noise = 1e3 * arrays.unit_roundoff(v) * arrays.norm(shifted)
                if gap > max(0.9 * old, noise) and sub.memory.get(GROWN, 1.0) < LARGEST_GROWTH:
                    rho, w = GROWTH * rho, w / GROWTH
                    sub.memory[GROWN] = GROWTH * float(sub.memory.get(GROWN, 1.0))
                    solve = _smooth_step(sub, gram, rho)

    def _penalty(self, sub: SubProblem, u: Array, gram: Matrix | None) -> float:
        if self.rho is not None:
            return self.rho
        grown = float(sub.memory.get(GROWN, 1.0))
        if gram is not None:
            return grown * (float(np.trace(gram, dtype=np.float64)) / gram.shape[0] or 1.0)
        constant = sub.lipschitz()
        constant = sub.prox_gradient_step(u)[1] if constant is None else constant or 1.0
        return grown * (0.5 if sub.term.is_convex else 1.0) * constant

    def __repr__(self) -> str:
        return "ADMM()" if self.rho is None else f"ADMM(rho={self.rho})"


def _dual(sub: SubProblem) -> Array:
    """The dual of the block's last visit, zero at its first."""
    like = arrays.dense(sub.previous)
    kept = sub.memory.get(DUAL)
    if kept is None or tuple(kept.shape) != tuple(like.shape):
        return arrays.zeros_like(like)
    return arrays.from_numpy(np.asarray(kept), like)


def _smooth_step(sub: SubProblem, gram: Matrix | None, rho: float) -> Solve:
    if gram is not None and arrays.all_finite(gram):
        with suppress(np.linalg.LinAlgError):  # rho may be less than the rounding of the Gram matrix
            return _by_cholesky(gram, rho)
    return (_by_conjugate_gradients if sub.is_quadratic else _by_gradient_step)(sub, rho)


def _by_cholesky(gram: Matrix, rho: float) -> Solve:
    """``d (A + rho I) = -r``."""
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(gram + rho * np.eye(gram.shape[0], dtype=gram.dtype), check_finite=False)

    def solve(v: Array, slope: Array) -> Array:
        return arrays.from_numpy(cho_solve(factor, -arrays.host(slope).T, check_finite=False).T, slope)

    return solve


def _by_conjugate_gradients(sub: SubProblem, rho: float) -> Solve:
    """``(hessian + rho) d = -r``, to a tenth of the residual, which itself tends to zero."""

    def solve(v: Array, slope: Array) -> Array:
        d, residual = arrays.zeros_like(slope), -slope
        direction, square = residual, arrays.inner(residual, residual)
        goal = CG_REDUCTION**2 * square
        for _ in range(CG_STEPS):
            system = sub.hessian(direction) + rho * direction
            curvature = arrays.inner(direction, system)
            if not curvature > 0.0:  # nothing left to solve
                break
            length = square / curvature
            d, residual = d + length * direction, residual - length * system
            old, square = square, arrays.inner(residual, residual)
            if square <= goal:
                break
            direction = residual + (square / old) * direction
        return d

    return solve


def _by_gradient_step(sub: SubProblem, rho: float) -> Solve:
    """``d = -r / (L + rho)``, with ``L`` back-tracked at ``v`` where the coupling has none."""

    def solve(v: Array, slope: Array) -> Array:
        curvature = sub.lipschitz()
        if curvature is None:
            curvature = sub.prox_gradient_step(v)[1]
        return -slope / (curvature + rho)

    return solve
