r"""The error of an inexact block update, computed, and the tests that accept it.

Proposition 1 of the paper, for any ``tau > 0``. With ``phi(u) = H(u, others) + eta/2 ||u - previous||^2`` let

    ``u~ = prox_{term/tau}(u - grad phi(u) / tau)``    and    ``e = tau (u - u~) - (grad phi(u) - grad phi(u~))``.

The optimality condition of the prox says ``tau (u - u~) - grad phi(u)  in  subdiff term(u~)``, hence
``e  in  subdiff term(u~) + grad phi(u~)``: an element of the sub-problem's subdifferential, at ``u~``. The paper's
case is ``tau = 1``.

A small ``e`` says that ``u~`` is nearly *stationary*. The descent of the Lyapunov function also needs

    ``F(u~) - F(previous) <= <e, u~ - previous>``,    ``F = term + phi``,

which convexity would give and a non-convex block need not satisfy. So it is computed.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import SubProblem
from tecu.tolerance import Tolerance


@dataclass(frozen=True)
class Numbers:
    """All that the tests compare, for a strategy that knows it without forming the arrays."""

    error_norm: float  # ||e||
    gradient_norm: float  # ||grad phi(u~)||
    error_along_move: float  # <e, u~ - previous>
    change: float  # F(u~) - F(previous)


@dataclass(frozen=True)
class Candidate:
    """A proposal of a strategy, with what the strategy already knows about it.

    Every field but ``u`` is optional; what is missing is computed. Claims are audited at random visits.
    ``gradient`` is ``grad phi(u)``, ``prox_point`` is ``u~`` for the given ``tau`` and ``error`` is ``e``. With
    ``prox_point``, ``tau`` and ``numbers`` nothing is left to compute.
    """

    u: Array
    gradient: Array | None = None
    prox_point: Array | None = None
    error: Array | None = None
    tau: float | None = None
    numbers: Numbers | None = None


@dataclass(frozen=True)
class Estimate:
    """A judged point: ``u~`` and its error ``e``, with the numbers that the tests compare."""

    point: Array  # u~
    error: Array | None  # e; None where the strategy gave its numbers only
    tau: float
    gradient: Array | None  # grad phi(u~); None likewise
    source: Array  # u
    source_gradient: Array | None  # grad phi(u)
    error_norm: float
    gradient_norm: float  # ||grad phi(u~)||
    move: float  # ||u~ - previous||
    floor: float  # what rounding alone may leave of ||e||
    term: float  # term(u~)
    numbers: Numbers | None = None

    def error_along_move(self, sub: SubProblem) -> float:
        """``<e, u~ - previous>``."""
        if self.numbers is not None:
            return self.numbers.error_along_move
        return arrays.inner(self.error, self.point - sub.previous)

    @property
    def is_finite(self) -> bool:
        """Whether nothing overflowed."""
        return math.isfinite(self.error_norm) and math.isfinite(self.move) and math.isfinite(self.term)


def estimate(sub: SubProblem, candidate: Candidate, tau: float | None = None) -> Estimate:
    """Complete what the candidate does not claim: ``u~``, ``e`` and their norms.

    Where ``H`` is quadratic in the block, ``grad phi(u) - grad phi(u~)`` is the Hessian of ``u - u~``: the error is
    then free of cancellation.
    """
    u = candidate.u
    gradient, point, error = candidate.gradient, candidate.prox_point, candidate.error
    step = candidate.tau if tau is None else tau
    if candidate.numbers is not None and point is not None and step is not None and step == candidate.tau:
        return _from_numbers(sub, u, point, step, candidate.numbers)
    if point is None or step is None or step != candidate.tau:
        gradient = sub.grad(u) if gradient is None else gradient
        point, step = sub.prox_gradient_step(u, gradient, step)
        error = None  # a claimed error belongs to the claimed prox point
    end_gradient = None
    if error is None:
        difference = u - point
        product = sub.hessian(difference)
        if product is None:
            gradient = sub.grad(u) if gradient is None else gradient
            end_gradient = sub.grad(point)
            product = gradient - end_gradient
        error = step * difference - product
    if end_gradient is None:
        # From the definition of e: grad phi(u~) = grad phi(u) - tau (u - u~) + e, at no further price.
        gradient = sub.grad(u) if gradient is None else gradient
        end_gradient = gradient - step * (u - point) + error
    size = arrays.norm(end_gradient)
    return Estimate(
        point=point,
        error=error,
        tau=step,
        gradient=end_gradient,
        source=u,
        source_gradient=gradient,
        error_norm=arrays.norm(error),
        move=arrays.distance(point, sub.previous),
        gradient_norm=size,
        floor=sub.rounding(point, size, step),
        term=float(sub.term.value(point)),
    )


def _from_numbers(sub: SubProblem, u: Array, point: Array, tau: float, numbers: Numbers) -> Estimate:
    return Estimate(
        point=point,
        error=None,
        tau=tau,
        gradient=None,
        source=u,
        source_gradient=None,
        error_norm=numbers.error_norm,
        move=arrays.distance(point, sub.previous),
        gradient_norm=numbers.gradient_norm,
        floor=sub.rounding(point, numbers.gradient_norm, tau),
        term=float(sub.term.value(point)),
        numbers=numbers,
    )


def rise(sub: SubProblem, found: Estimate) -> tuple[float, float]:
    """``F(u~) - F(previous)`` and the rounding it may carry.

    Where ``H`` is quadratic, ``H(u~) - H(previous)`` is the mean of the two gradients times the move, which does not
    cancel; otherwise the values are subtracted.
    """
    if found.numbers is not None:
        slack = found.floor * found.move
        slack += 8 * arrays.unit_roundoff(sub.previous) * max(abs(found.term), abs(sub.term_at_previous()))
        return found.numbers.change, slack
    move = found.point - sub.previous
    if sub.is_quadratic:
        start = sub.coupling_at_previous()[1]
        end = found.gradient - sub.eta * move if sub.eta else found.gradient
        change = 0.5 * (arrays.inner(start, move) + arrays.inner(end, move))
        slack = found.floor * found.move
    else:
        after, before = sub.coupling_value(found.point), sub.coupling_value_at_previous()
        change, slack = after - before, sub.value_slack(after, before)
    term = found.term - sub.term_at_previous()
    slack += 8 * arrays.unit_roundoff(sub.previous) * max(abs(found.term), abs(sub.term_at_previous()))
    return term + change + 0.5 * sub.eta * found.move**2, slack


class Judgement(enum.Enum):
    """What the acceptance tests say of a point."""

    ACCEPT = "criterion met"
    ACCEPT_BY_OWN_MOVE = "criterion met against the block's own move"
    ACCEPT_BY_FLOOR = "the error is at the level of rounding"
    GO_ON = "the error is still too large"
    NO_DESCENT = "stationary, but the sub-problem's objective rises"


@dataclass(frozen=True)
class Judged:
    """A judgement with the tolerance it compared ``||e||`` to."""

    judgement: Judgement
    tolerance: float

    @property
    def accepted(self) -> bool:
        """Whether the point may be taken."""
        return self.judgement in (Judgement.ACCEPT, Judgement.ACCEPT_BY_OWN_MOVE, Judgement.ACCEPT_BY_FLOOR)


def judge(sub: SubProblem, found: Estimate, rule: Tolerance) -> Judged:
    """The acceptance tests.

    With a previous move ``eps``: (i) ``||e|| <= C eps`` and (ii) ``F(u~) - F(previous) <= <e, u~ - previous>``.
    At a block's first visit, and when the last move is lost in rounding: ``||e|| <= C ||u~ - previous||`` and
    ``F(u~) <= F(previous)``; the second inequality alone would accept anything on a convex block.
    """
    bound = rule.bound(sub.visits, sub.previous_move)
    own_move = bound is None or bound <= found.floor
    tolerance = rule.own_move_factor * found.move if own_move or bound is None else bound
    if not found.is_finite:
        return Judged(Judgement.GO_ON, tolerance)
    by_floor = found.error_norm > tolerance and found.error_norm <= found.floor
    if found.error_norm > tolerance and not by_floor:
        return Judged(Judgement.GO_ON, tolerance)
    change, slack = rise(sub, found)
    allowed = 0.0 if own_move else found.error_along_move(sub)
    if change > allowed + slack:
        return Judged(Judgement.NO_DESCENT, tolerance)
    if by_floor:
        return Judged(Judgement.ACCEPT_BY_FLOOR, max(tolerance, found.floor))
    return Judged(Judgement.ACCEPT_BY_OWN_MOVE if own_move else Judgement.ACCEPT, tolerance)
