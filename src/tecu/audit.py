"""Finding out a wrong prox, and a strategy that claims what is not true."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate, Estimate, estimate, rise
from tecu.problem import SubProblem


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
    change: float | None = None  # F(u~) - F(previous), where the strategy claimed it


def claim_of(sub: SubProblem, found: Estimate) -> Claim:
    """The claim behind an accepted estimate."""
    along = found.error_along_move(sub)
    change = None if found.numbers is None else found.numbers.change
    return Claim(found.source, found.tau, found.error_norm, found.gradient_norm, along, change)


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
    if claim.change is not None:
        change, slack = rise(sub, truth)
        if not abs(claim.change - change) <= 1e-3 * abs(change) + 64 * slack:
            return f"the strategy of block {sub.block!r} claimed a change of {claim.change:.6g} instead of {change:.6g}"
    return None
