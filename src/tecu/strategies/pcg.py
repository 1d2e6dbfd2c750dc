"""Preconditioned conjugate gradients on a smooth quadratic block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.diagonal import quadratic_weight
from tecu.inexact import Candidate
from tecu.strategies.prox_gradient import REFRESH
from tecu.subproblem import SubProblem

Preconditioner = Callable[[SubProblem], Callable[[Array], Array]]


class PCG:
    r"""Conjugate gradients on ``phi(u) + weight/2 ||u||^2`` where ``phi`` is quadratic: with ``r`` minus the gradient,
    ``z = M^{-1} r``, ``p = z + beta p``, ``u = u + alpha p``, ``r = r - alpha A p``.

    The product taken is ``A z``, not ``A p``, which follows from it (Chronopoulos and Gear, 1989). Without a
    preconditioner ``z = r`` is a multiple of ``u - u~``, so the same product gives the error of the proposal.

    Parameters
    ----------
    preconditioner
        A function that is given the sub-problem once a visit and returns the function ``r -> M^{-1} r``.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> coupling = couplings.MatrixFactorization(np.eye(2))
    >>> problem = tecu.Problem(coupling, {"W": terms.L0(0.1), "D": terms.SquaredL2(1.0)})
    >>> sub = tecu.SubProblem.of(problem, "D", {"W": np.diag([1.0, 2.0]), "D": np.zeros((2, 2))}, eta=1.0)
    >>> proposals = strategies.PCG()(sub, sub.previous)
    >>> start, first, second = (next(proposals).u for _ in range(3))
    >>> second.round(6).tolist()
    [[0.333333, 0.0], [0.0, 0.333333]]
    """

    endless = True

    def __init__(self, preconditioner: Preconditioner | None = None) -> None:
        if preconditioner is not None and not callable(preconditioner):
            raise TypeError(f"PCG: preconditioner must be a function of the sub-problem, got {preconditioner!r}")
        self.preconditioner = preconditioner

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield the start and the iterates, with their gradients."""
        weight = _checked_weight(sub)
        precondition = None if self.preconditioner is None else self.preconditioner(sub)
        tau = sub.lipschitz()
        gradient, u = arrays.dense(sub.grad(u)), arrays.dense(u)
        residual = -gradient - weight * u
        direction: Array = None
        product: Array = None  # the system applied to the direction
        previous = 1.0
        for k in count(1):
            z = residual if precondition is None else arrays.as_kind(precondition(residual), residual)
            curved = sub.hessian(z)
            yield _candidate(sub, u, gradient, tau, weight, z, curved, shared=precondition is None)
            square = arrays.inner(residual, z)
            beta = 0.0 if direction is None or previous == 0.0 else square / previous
            step, previous = curved + weight * z, square
            direction, product = (z, step) if beta == 0.0 else (z + beta * direction, step + beta * product)
            curvature = arrays.inner(direction, product)
            # Not a minimisation along this direction: a gradient step instead. At the solution all of it is zero.
            alpha = square / curvature if curvature > 0.0 else 1.0 / ((tau or 1.0) + weight)
            u = u + alpha * direction
            gradient = gradient + alpha * (product - weight * direction)
            residual = residual - alpha * product
            if k % REFRESH == 0:
                gradient = sub.grad(arrays.as_kind(u, sub.previous))
                fresh = -gradient - weight * u
                if arrays.distance(fresh, residual) > 0.1 * arrays.norm(fresh):
                    direction = product = None  # rounding has taken over: conjugacy is lost
                residual = fresh

    def __repr__(self) -> str:
        return "PCG()" if self.preconditioner is None else f"PCG({self.preconditioner!r})"


def _checked_weight(sub: SubProblem) -> float:
    weight = quadratic_weight(sub.term)
    if weight is None:
        raise ValueError(
            f"block {sub.block!r}: PCG needs a smooth quadratic block, that is terms.Zero or terms.SquaredL2, "
            f"got {sub.term!r}; use strategies.FISTA or strategies.ADMM"
        )
    if not sub.is_quadratic:
        raise ValueError(
            f"block {sub.block!r}: PCG needs a coupling that is quadratic in the block and offers its hessian; "
            "use strategies.FISTA"
        )
    return weight


def _candidate(
    sub: SubProblem, u: Array, gradient: Array, tau: float | None, weight: float, z: Array, curved: Array, shared: bool
) -> Candidate:
    """The iterate, with all claims where ``z`` is the residual, so that ``u - u~ = -z / (tau + weight)``."""
    point = arrays.as_kind(u, sub.previous)
    if not shared or not tau:
        return Candidate(point, gradient)
    scale = 1.0 / (tau + weight)
    return Candidate(
        point,
        gradient,
        arrays.as_kind(u + scale * z, sub.previous),
        (curved - tau * z) * scale,
        tau,
    )
