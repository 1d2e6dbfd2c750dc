"""Prox-gradient steps, the plainest strategy, and the step with all its claims that others share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tecu.arrays import Array
from tecu.in_place import step_error
from tecu.inexact import Candidate
from tecu.subproblem import SubProblem

REFRESH = 32  # a gradient carried along by Hessian products is computed anew this often: rounding must not pile up


def claimed_step(
    sub: SubProblem, u: Array, gradient: Array, tau: float | None = None, *, refresh: bool = False
) -> tuple[Candidate, Array]:
    """``u~ = prox(u - g / tau)`` as a candidate that lacks no claim, and the gradient at ``u~``.

    ``e = tau (u - u~) - (g - grad phi(u~))``, where a quadratic ``phi`` gives the bracket as the Hessian of ``u - u~``,
    free of cancellation, and the gradient at ``u~`` from it. So one gradient a step pays for the step, its error and
    the next step.
    """
    point, difference, tau = sub.step_with_difference(u, gradient, tau)
    product = sub.coupling_hessian(difference)
    known = sub.grad(point) if product is None or refresh else None
    if product is None:
        error, size, end = step_error(difference, tau, gradient - known, gradient)
    else:
        error, size, end = step_error(difference, tau, product, gradient, sub.eta)
    return Candidate(u, gradient, point, error, tau, error_norm=size), end if known is None else known


class ProxGradient:
    """``u <- prox(u - grad phi(u) / tau)``, ``tau`` the Lipschitz constant of ``grad phi`` or by back-tracking.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(2)), {"W": terms.NonNegative(), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "D", {"W": np.eye(2), "D": np.zeros((2, 2))}, eta=1.0)
    >>> proposals = strategies.ProxGradient()(sub, sub.previous)
    >>> for _ in range(20):
    ...     best = next(proposals).prox_point
    >>> best.round(6).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield ``u`` with its prox point and error, then go on from the prox point."""
        gradient = sub.grad(u)
        for k in count(1):
            candidate, gradient = claimed_step(sub, u, gradient, refresh=k % REFRESH == 0)
            yield candidate
            u = candidate.prox_point

    def __repr__(self) -> str:
        return "ProxGradient()"
