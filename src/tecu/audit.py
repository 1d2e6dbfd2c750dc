"""Finding out a wrong prox, and a strategy that claims what is not true."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tecu import arrays
from tecu.arrays import Array
from tecu.in_place import gradient_step
from tecu.inexact import Candidate, Estimate, estimate
from tecu.problem import SubProblem
from tecu.rivals import beaten_prox
from tecu.rounding import lean_of_claim, lean_on_set


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
    excess += found.source_slope + found.tau * (found.step_along_move - 0.5 * move * move)
    if excess > 0.0 and excess > _prox_slack(found, move, sub.term_at_previous()):
        return f"the prox of block {sub.block!r} is not a minimiser: the point it came from is better by {excess:.3g}"
    if found.source is sub.previous:
        return None
    term = float(sub.term.value(found.source))
    if not math.isfinite(term):
        return None
    step, slope = found.step_and_slope
    excess = found.term - term + slope + 0.5 * found.tau * step * step
    if excess > 0.0 and excess > _prox_slack(found, step, term):
        return f"the prox of block {sub.block!r} is not a minimiser: the proposal itself is better by {excess:.3g}"
    return None


def _prox_slack(found: Estimate, distance: float, rival_term: float) -> float:
    """Rounding of the gradient over ``distance``, and of a rival that lies in its set only to rounding."""
    r = arrays.unit_roundoff(found.point)
    slope = arrays.norm(found.source_gradient) + found.tau * distance
    lean = 32 * r * math.sqrt(math.prod(found.point.shape)) * max(1.0, found.sub.size_of_previous())
    return found.floor * distance + slope * (8 * r * distance + lean) + 8 * r * (abs(found.term) + abs(rival_term))


def _same_prox_value(found: Estimate, right: Array) -> bool:
    """Whether ``u~`` is as good a prox point as the right one: a non-convex prox may have several (ties of l0)."""
    difference = found.point - right
    center = found.source - found.source_gradient / found.tau
    term = float(found.sub.term.value(right))
    excess = found.term - term + found.tau * arrays.inner(difference, 0.5 * (found.point + right) - center)
    return excess <= _prox_slack(found, arrays.norm(difference), term)


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


def audit_claim(sub: SubProblem, claim: Claim, point: Array, thorough: bool = True) -> str | None:
    """Recompute a claim from ``u`` alone; ``None`` or a sentence that says what is false.

    The rounding that is allowed for grows with ``||grad phi(previous)||``. A claim that is true without that room
    needs no such gradient, which is most of them.
    """
    known = sub.known_start() is not None
    fault = _false_claim(sub, claim, point, thorough)
    if fault is None or known:
        return fault
    sub.coupling_at_previous()
    return _false_claim(sub, claim, point, thorough)


def _false_claim(sub: SubProblem, claim: Claim, point: Array, thorough: bool) -> str | None:
    curvature = sub.measure_curvature()
    if not sub.trusts(claim.tau):
        return (
            f"the error of block {sub.block!r} drowns in rounding: it was computed with tau = {claim.tau:.3g}, "
            f"the block's curvature is {curvature:.3g}"
        )
    gradient = sub.grad(claim.u)
    right, _ = sub.prox_gradient_step(claim.u, gradient, claim.tau)
    truth = estimate(sub, Candidate(claim.u, gradient, point, tau=claim.tau))  # of the point that was taken
    allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    if not claim.tau * arrays.distance(point, right) <= allowed and not _same_prox_value(truth, right):
        return f"the strategy of block {sub.block!r} claimed a wrong prox point"
    if thorough and claim.slope is not None:
        center = gradient_step(truth.source, truth.source_gradient, truth.tau)
        beaten = beaten_prox(sub, center, truth.tau, truth.point)
        if beaten is not None:
            return beaten
    change, room_of_change = _change(truth, claim) if claim.change is not None else (0.0, 0.0)
    for name, said, true, room in (
        ("error", claim.error_norm, truth.error_norm, allowed),
        ("error", claim.error_along_move, truth.error_along_move, allowed * truth.move),
        ("gradient", claim.slope, truth.slope, 1e-3 * abs(truth.slope) + (allowed + 64 * truth.floor) * truth.move),
        ("change of the objective", claim.change, change, room_of_change),
    ):
        if said is not None and not abs(said - true) <= room:
            return f"the strategy of block {sub.block!r} claimed a wrong {name}: {said:.6g} instead of {true:.6g}"
    return None


def _change(truth: Estimate, claim: Claim) -> tuple[float, float]:
    """``F(u~) - F(previous)``, and how far from it an honest claim may be."""
    sub, (change, slack) = truth.sub, truth.rise
    lean = lean_on_set(sub) if sub.is_quadratic else 0.0
    room = 1e-3 * abs(change) + 64 * (slack - lean) + min(lean, lean_of_claim(sub))
    # A move by rounding alone has a change of its own, however flat the objective is.
    hidden = 8 * arrays.unit_roundoff(truth.point) * arrays.norm(truth.point)
    room += claim.tau * hidden * hidden
    if claim.change is not None and abs(claim.change - change) > room:  # it may be a difference of two values of H
        room += 8 * sub.value_slack(sub.coupling_value_at_previous())
    return change, room
