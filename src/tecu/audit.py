"""Finding out a wrong prox, and a strategy that claims what is not true."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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


def beaten_prox(sub: SubProblem, x: Array, tau: float, point: Array) -> str | None:
    """Whether a rival is better than ``point`` at ``q(v) = term(v) + tau/2 ||v - x||^2``; a sentence if so.

    Rivals are the prox with half and twice the step, ``x`` itself, zero, ``point`` without its smaller entries, and
    the best points of the lines from ``point`` towards ``x``, towards ``x`` on the support of ``point``, and towards
    zero. A right prox is beaten by nothing.
    """
    term = float(sub.term.value(point))
    r, shape = arrays.unit_roundoff(point), math.sqrt(math.prod(point.shape))
    far, size = arrays.distance(point, x), arrays.norm(point)
    # Both points lie in a set, and x where it should be, only to rounding.
    lean = 32 * r * (shape * max(1.0, size) + arrays.norm(x))

    def excess(rival: Array) -> float:
        """``q(point) - q(rival)``, in an inner product that does not cancel, less what rounding explains."""
        value = float(sub.term.value(rival))
        if not math.isfinite(value):
            return -math.inf
        apart = point - rival
        gain = term - value + tau * arrays.inner(apart, 0.5 * (point + rival) - x)
        slope = tau * (far + arrays.distance(rival, x))
        return gain - slope * (lean + 8 * r * arrays.norm(apart)) - 64 * r * shape * (abs(term) + abs(value))

    def line(direction: Array) -> Iterator[Array]:
        """A little forth and back, and to where the slope seen there says that the minimum is."""
        length = arrays.norm(direction)
        if not 0.0 < length < math.inf:
            return
        for little in (1e-3, -1e-3):
            near = point + little * direction
            yield near
            value = float(sub.term.value(near))
            if math.isfinite(value):
                slope = (value - term) / little + tau * arrays.inner(point - x, direction)
                yield point - (slope / tau / length / length) * direction

    def rivals() -> Iterator[Array]:
        yield sub.prox(x, 0.5 / tau)
        yield sub.prox(x, 2.0 / tau)
        if not arrays.is_sparse(point):
            yield x
            yield from line(x - point)
            yield arrays.zeros_like(point)
            large = arrays.host(point)
            yield point * arrays.from_numpy(np.abs(large) >= size / shape, point)
        yield from line(arrays.on_support(x, point) - point)
        yield from line(point)

    best = max((excess(rival) for rival in rivals()), default=0.0)
    if best > 0.0:
        return f"the prox of block {sub.block!r} is not a minimiser: another point is better by {best:.3g}"
    return None


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
    curvature = sub.measure_curvature()
    if not sub.trusts(claim.tau):
        return (
            f"the error of block {sub.block!r} drowns in rounding: it was computed with tau = {claim.tau:.3g}, "
            f"the block's curvature is {curvature:.3g}"
        )
    truth = estimate(sub, Candidate(claim.u), claim.tau)
    allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    gap = arrays.distance(point, truth.point)
    if not claim.tau * gap <= allowed and not _same_prox_value(sub, point, truth):
        return f"the strategy of block {sub.block!r} claimed a wrong prox point"
    if gap > 0.0:  # judge the point that was taken
        truth = estimate(sub, Candidate(claim.u, truth.source_gradient, point, tau=claim.tau))
        allowed = 1e-3 * truth.error_norm + 64 * truth.floor
    beaten = (
        None
        if claim.slope is None
        else beaten_prox(sub, truth.source - truth.source_gradient / truth.tau, truth.tau, truth.point)
    )
    if beaten is not None:
        return beaten
    change, slack = truth.rise
    # A move by rounding alone has a change of its own, however flat the objective is.
    hidden = claim.tau * (8 * arrays.unit_roundoff(point) * arrays.norm(point)) ** 2
    for name, said, true, room in (
        ("error", claim.error_norm, truth.error_norm, allowed),
        ("error", claim.error_along_move, truth.error_along_move, allowed * truth.move),
        ("gradient", claim.slope, truth.slope, 1e-3 * abs(truth.slope) + (allowed + 64 * truth.floor) * truth.move),
        ("change of the objective", claim.change, change, 1e-3 * abs(change) + 64 * slack + hidden),
    ):
        if said is not None and not abs(said - true) <= room:
            return f"the strategy of block {sub.block!r} claimed a wrong {name}: {said:.6g} instead of {true:.6g}"
    return None
