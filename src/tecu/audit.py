"""Finding out a wrong prox, and a strategy that claims what is not true."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate, Estimate, estimate
from tecu.problem import SubProblem


def prox_fault(sub: SubProblem, found: Estimate) -> str | None:
    """Whether ``u~`` is beaten as a minimiser of ``term(v) + tau/2 ||v - x||^2``, ``x = u - grad phi(u)/tau``.

    Tried are the two points at hand, ``u`` and ``previous``; a right prox is beaten by nothing. A strategy that claims
    only numbers has no gradient to try it with: its claims are audited instead.
    """
    if found.numbers is not None:
        return None
    # ||u~ - x||^2 - ||v - x||^2 for v = previous and v = u, in inner products that do not cancel
    move = found.move
    excess = found.term - sub.term_at_previous()
    excess += found.source_slope + found.tau * (found.step_along_move - 0.5 * move**2)
    if excess > 0.0 and excess > _prox_slack(found, move, sub.term_at_previous()):
        return f"the prox of block {sub.block!r} is not a minimiser: the point it came from is better by {excess:.3g}"
    if found.source is sub.previous:
        return None
    term = float(sub.term.value(found.source))
    if not math.isfinite(term):
        return None
    step = arrays.norm(found.step)
    excess = found.term - term + arrays.inner(found.source_gradient, found.step) + 0.5 * found.tau * step**2
    if excess > 0.0 and excess > _prox_slack(found, step, term):
        return f"the prox of block {sub.block!r} is not a minimiser: the proposal itself is better by {excess:.3g}"
    return None


def _prox_slack(found: Estimate, distance: float, rival_term: float) -> float:
    """Rounding of the gradient over ``distance``, and of a rival that lies in its set only to rounding."""
    r = arrays.unit_roundoff(found.point)
    slope = arrays.norm(found.source_gradient) + found.tau * distance
    lean = 32 * r * math.sqrt(math.prod(found.point.shape)) * max(1.0, found.sub.size_of_previous())
    return found.floor * distance + slope * (8 * r * distance + lean) + 8 * r * (abs(found.term) + abs(rival_term))


def _same_prox_value(sub: SubProblem, point: Array, truth: Estimate) -> bool:
    """Whether ``point`` is as good a prox point as the true one: a non-convex prox may have several (ties of l0)."""
    difference = point - truth.point
    center = truth.source - truth.source_gradient / truth.tau
    term = float(sub.term.value(point))
    excess = term - truth.term + truth.tau * arrays.inner(difference, 0.5 * (point + truth.point) - center)
    return excess <= _prox_slack(truth, arrays.norm(difference), term)


@dataclass(frozen=True)
class Claim:
    """What a strategy said of an accepted point, in a few numbers: enough to find out a lie later."""

    u: Array
    tau: float
    error_norm: float
    error_along_move: float  # <e, u~ - previous>
    slope: float | None = None  # <grad phi(u~), u~ - previous>, of a strategy that claims arrays
    change: float | None = None  # F(u~) - F(previous), of one that claims numbers


def claim_of(found: Estimate) -> Claim:
    """The claim behind an accepted estimate."""
    numbers = found.numbers
    slope, change = (found.slope, None) if numbers is None else (None, numbers.change)
    return Claim(found.source, found.tau, found.error_norm, found.error_along_move, slope, change)


def audit_claim(sub: SubProblem, claim: Claim, point: Array) -> str | None:
    """Recompute a claim from ``u`` alone; ``None`` or a sentence that says what is false."""
    sub.coupling_at_previous()  # the floor of the tests rests on it
    truth = estimate(sub, Candidate(claim.u), claim.tau)
    allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    gap = arrays.distance(point, truth.point)
    if not claim.tau * gap <= allowed and not _same_prox_value(sub, point, truth):
        return f"the strategy of block {sub.block!r} claimed a wrong prox point"
    if gap > 0.0:  # judge the point that was taken
        truth = estimate(sub, Candidate(claim.u, truth.source_gradient, point, tau=claim.tau))
        allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    change, slack = truth.rise
    for name, said, true, room in (
        ("error", claim.error_norm, truth.error_norm, allowed),
        ("error", claim.error_along_move, truth.error_along_move, allowed * truth.move),
        ("gradient", claim.slope, truth.slope, 1e-3 * abs(truth.slope) + (allowed + 64 * truth.floor) * truth.move),
        ("change of the objective", claim.change, change, 1e-3 * abs(change) + 64 * slack),
    ):
        if said is not None and not abs(said - true) <= room:
            return f"the strategy of block {sub.block!r} claimed a wrong {name}: {said:.6g} instead of {true:.6g}"
    return None
