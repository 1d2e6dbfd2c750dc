"""Accelerated prox-gradient steps with adaptive restart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.strategies.prox_gradient import claimed_step
from tecu.subproblem import SubProblem

REFRESH = 16  # steps between fresh gradients; extrapolation makes the rounding in carried ones grow
STRIDE = 4  # steps between proposals where a proposal costs a gradient of its own


class FISTA:
    r"""``x+ = prox(y - grad phi(y) / tau)``, ``y+ = x+ + (t - 1) / t+ (x+ - x)``, ``t+ = (1 + sqrt(1 + 4 t^2)) / 2``.

    The momentum restarts (``t = 1``) when it points uphill, ``<y - x+, x+ - x> > 0`` (O'Donoghue and Candes, 2015).

    The proposals are the ``y``, with ``x+`` as their prox point and its error. That needs the gradient at ``x+`` too.
    Where ``phi`` is quadratic the one at ``y+`` follows from it: ``grad phi`` is affine. Otherwise it is an extra, and
    only every fourth step is proposed.

    Parameters
    ----------
    restart
        Whether to restart; without it this is Beck and Teboulle's method.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(2)), {"W": terms.L1(0.5), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 2)), "D": np.eye(2)}, eta=1.0)
    >>> proposals = strategies.FISTA()(sub, sub.previous)
    >>> for _ in range(20):
    ...     best = next(proposals).prox_point
    >>> best.round(6).tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """

    endless = True

    def __init__(self, restart: bool = True) -> None:
        self.restart = bool(restart)

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield the points ``y`` with their claims."""
        return self._affine(sub, u) if sub.is_quadratic else self._general(sub, u)

    def _affine(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """One Hessian product a step, whose result is carried along to ``y``."""
        x, y, t = u, u, 1.0
        slope_x = slope_y = sub.grad(u)
        for k in count(1):
            refresh = k % REFRESH == 0
            candidate, slope = claimed_step(sub, y, slope_y, refresh=refresh)
            if refresh:  # both: extrapolation would magnify the rounding in either
                slope_x = sub.grad(x)
            yield candidate
            point = candidate.prox_point
            momentum, t = self._momentum(y, x, point, t)
            y, slope_y = _ahead(point, x, momentum), _ahead(slope, slope_x, momentum)
            x, slope_x = point, slope

    def _general(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """One gradient a step, and one more for a proposal unless ``y`` is about to be ``x`` itself."""
        x, y, t = u, u, 1.0
        slope_y = sub.grad(u)
        for k in count():
            point, tau = sub.prox_gradient_step(y, slope_y)
            momentum, t = self._momentum(y, x, point, t)
            ahead = _ahead(point, x, momentum)
            slope = None
            if momentum == 0.0 or k % STRIDE == 0:
                slope = sub.grad(point)
                yield Candidate(y, slope_y, point, tau * (y - point) - (slope_y - slope), tau)
            slope_y = slope if slope is not None and momentum == 0.0 else sub.grad(ahead)
            if not arrays.all_finite(slope_y):  # the momentum has left H's domain
                ahead, slope_y, t = point, sub.grad(point), 1.0
            x, y = point, ahead

    def _momentum(self, y: Array, x: Array, point: Array, t: float) -> tuple[float, float]:
        """The factor ``(t - 1) / t+`` and ``t+``; no momentum where it would point uphill."""
        if self.restart and arrays.inner(y - point, point - x) > 0.0:
            t = 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        return (t - 1.0) / following, following

    def __repr__(self) -> str:
        return "FISTA()" if self.restart else "FISTA(restart=False)"


def _ahead(new: Array, old: Array, momentum: float) -> Array:
    return new if momentum == 0.0 else new + momentum * (new - old)
