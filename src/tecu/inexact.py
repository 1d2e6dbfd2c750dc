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
class Candidate:
    """A proposal of a strategy, with what the strategy already knows about it.

    Every field but ``u`` is optional; what is missing is computed. Claims are audited at random visits.
    ``gradient`` is ``grad phi(u)``, ``prox_point`` is ``u~`` for the given ``tau`` and ``error`` is ``e``.
    """

    u: Array
    gradient: Array | None = None
    prox_point: Array | None = None
    error: Array | None = None
    tau: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A judged point: ``u~`` and its error ``e``, with the numbers that the tests compare."""

    point: Array  # u~
    error: Array  # e
    tau: float
    gradient: Array  # grad phi(u~)
    source: Array  # u
    source_gradient: Array | None  # grad phi(u)
    error_norm: float
    gradient_norm: float  # ||grad phi(u~)||
    move: float  # ||u~ - previous||
    floor: float  # what rounding alone may leave of ||e||
    term: float  # term(u~)

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


def rise(sub: SubProblem, found: Estimate) -> tuple[float, float]:
    """``F(u~) - F(previous)`` and the rounding it may carry.

    Where ``H`` is quadratic, ``H(u~) - H(previous)`` is the mean of the two gradients times the move, which does not
    cancel; otherwise the values are subtracted.
    """
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
    allowed = 0.0 if own_move else arrays.inner(found.error, found.point - sub.previous)
    if change > allowed + slack:
        return Judged(Judgement.NO_DESCENT, tolerance)
    if by_floor:
        return Judged(Judgement.ACCEPT_BY_FLOOR, max(tolerance, found.floor))
    return Judged(Judgement.ACCEPT_BY_OWN_MOVE if own_move else Judgement.ACCEPT, tolerance)


def prox_fault(sub: SubProblem, found: Estimate) -> str | None:
    """Whether ``u~`` is beaten as a minimiser of ``term(v) + tau/2 ||v - x||^2``, ``x = u - grad phi(u)/tau``.

    Tried are the two points at hand, ``u`` and ``previous``; a right prox is beaten by nothing.
    """
    if found.source_gradient is None:
        return None
    rivals = [("previous", sub.previous, sub.term_at_previous())]
    if found.source is not sub.previous:
        rivals.append(("u", found.source, float(sub.term.value(found.source))))
    for name, rival, term in rivals:
        if math.isfinite(term) and not _prox_as_good(sub, found, found.point, found.term, rival, term):
            return f"the prox of block {sub.block!r} is not a minimiser: the point {name} has a lower value"
    return None


def _prox_as_good(sub: SubProblem, at: Estimate, point: Array, term: float, rival: Array, rival_term: float) -> bool:
    """Whether ``point`` is as good a prox point as ``rival``, for the prox that ``at`` took, up to rounding."""
    assert at.source_gradient is not None
    center = at.source - at.source_gradient / at.tau
    distance, rival_distance = arrays.distance(point, center), arrays.distance(rival, center)
    own, other = term + 0.5 * at.tau * distance**2, rival_term + 0.5 * at.tau * rival_distance**2
    r = arrays.unit_roundoff(sub.previous)
    blur = 8 * r * (arrays.norm(point) + arrays.norm(center))  # what rounding does to either distance
    slack = at.tau * blur * (distance + rival_distance + blur) + 8 * r * (abs(term) + abs(rival_term))
    return own <= other + slack


@dataclass(frozen=True)
class Claim:
    """What a strategy said of an accepted point, in a few numbers: enough to find out a lie later."""

    u: Array
    tau: float
    error_norm: float
    gradient_norm: float
    error_along_move: float  # <e, u~ - previous>


def claim_of(sub: SubProblem, found: Estimate) -> Claim:
    """The claim behind an accepted estimate."""
    along = arrays.inner(found.error, found.point - sub.previous)
    return Claim(found.source, found.tau, found.error_norm, found.gradient_norm, along)


def audit_claim(sub: SubProblem, claim: Claim, point: Array) -> str | None:
    """Recompute a claim from ``u`` alone; ``None`` or a sentence that says what is false."""
    truth = estimate(sub, Candidate(claim.u), claim.tau)
    allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    if not claim.tau * arrays.distance(point, truth.point) <= allowed and not _prox_as_good(
        sub, truth, point, float(sub.term.value(point)), truth.point, truth.term
    ):
        return f"the strategy of block {sub.block!r} claimed a wrong prox point"
    if arrays.distance(point, truth.point) > 0.0:
        # Two prox points of equal value (a tie of a non-convex term): judge the one that was taken.
        truth = estimate(sub, Candidate(claim.u, truth.source_gradient, point, tau=claim.tau))
        allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    along = arrays.inner(truth.error, truth.point - sub.previous)
    for name, said, true, room in (
        ("error", claim.error_norm, truth.error_norm, allowed),
        ("gradient", claim.gradient_norm, truth.gradient_norm, 1e-3 * truth.gradient_norm + 64 * truth.floor),
        ("error", claim.error_along_move, along, allowed * truth.move),
    ):
        if not abs(said - true) <= room:
            return f"the strategy of block {sub.block!r} claimed a wrong {name}: {said:.6g} instead of {true:.6g}"
    return None
