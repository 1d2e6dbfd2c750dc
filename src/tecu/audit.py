"""Finding out a wrong prox, and a strategy that claims what is not true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate, Estimate, estimate
from tecu.problem import SubProblem
from tecu.protocols import Term, treats_entries_alike
from tecu.rounding import lean_of_claim, lean_on_set

ENTRIES = 2**16  # of a large block, when its prox is tried against rivals
SINGLE = 8  # entries that are changed one by one
LITTLE = 1e-3  # how far along a line the slope of a term is looked at


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


def _some_entries(term: Term, x: Array, point: Array) -> tuple[Array, Array]:
    """Both arrays, or every ``k``-th entry of them where the term is a sum over entries that are treated alike."""
    plain = type(x) is np.ndarray and type(point) is np.ndarray and point.flags.c_contiguous and x.flags.c_contiguous
    if not plain or point.size <= 2 * ENTRIES or not treats_entries_alike(term):
        return x, point
    every = point.size // ENTRIES | 1  # odd: not always the same columns
    return x.reshape(-1)[::every].copy(), point.reshape(-1)[::every].copy()


def beaten_prox(sub: SubProblem, x: Array, tau: float, point: Array, *, thorough: bool = True) -> str | None:
    """Whether a rival is better than ``point`` at ``q(v) = term(v) + tau/2 ||v - x||^2``; a sentence if so.

    Rivals lie on the lines from ``point`` towards ``x``, towards ``x`` on the support of ``point``, and towards zero;
    further there are the prox with half and twice the step, the proxes of points near ``x``, and ``point`` without its
    smaller entries or with a single one changed. A right prox is beaten by nothing. If not ``thorough``, one line drawn
    at random is tried. Of a large block with a term that says that it is a sum over entries, some entries will do. A
    block that lives elsewhere (:func:`tecu.arrays.is_elsewhere`) has no entries to look at: it is tried as a whole.
    """
    x, point = _some_entries(sub.term, x, point)
    term = float(sub.term.value(point))
    r, shape = arrays.unit_roundoff(point), math.sqrt(math.prod(point.shape))
    past = x - point
    far, size = arrays.norm(past), arrays.norm(point)
    # Both points lie in a set, and x where it should be, only to rounding.
    lean = 32 * r * (shape * max(1.0, size) + size + far)

    def excess(rival: Array, along: float, length: float) -> float:
        """``q(point) - q(rival)``, less what rounding explains; ``along`` is ``<rival - point, x - point>``."""
        value = float(sub.term.value(rival))
        if not math.isfinite(value):
            return -math.inf
        gain = term - value + tau * (along - 0.5 * length * length)
        slope = tau * (2 * far + length)
        found = gain - slope * (lean + 8 * r * length) - 64 * r * shape * (abs(term) + abs(value))
        return found if found <= 0.0 else found - slope * stray(rival)

    def stray(rival: Array) -> float:
        """How far a rival lies outside of its set if no entry is by more than a set lets it, ``32 r sqrt(size)``."""
        if not has_entries:
            return 0.0
        outside = rival - arrays.as_kind(sub.term.prox(rival, r / tau), point)
        most = float(np.max(np.abs(arrays.host(outside)), initial=0.0))
        return arrays.norm(outside) if most <= 32 * r * shape * max(1.0, size) else 0.0

    def on_line(direction: Array, *places: float) -> Iterator[float]:
        """The excesses at ``point + place * direction``, and where the slope seen there says that the minimum is."""
        length = arrays.norm(direction)
        if not 0.0 < length < math.inf:
            return
        along = arrays.inner(direction, past)
        for place in places:
            found = excess(point + place * direction, place * along, abs(place) * length)
            yield found
            # q(point + t d) is term - slope t + tau/2 t^2 ||d||^2 for small t
            slope = found / place + 0.5 * tau * place * length * length
            best = slope / tau / length / length
            if abs(place) < 1.0 and 0.0 < best / place < math.inf:
                yield excess(point + best * direction, best * along, abs(best) * length)

    def off_line() -> Iterator[float]:
        rivals = [arrays.as_kind(sub.term.prox(x, step), point) for step in (0.5 / tau, 2.0 / tau)]
        if is_dense:
            rivals.append(point * arrays.from_numpy(np.abs(arrays.host(point)) >= size / shape, point))
        for rival in rivals:
            apart = rival - point
            length = arrays.norm(apart)
            if length > 0.0:
                yield excess(rival, arrays.inner(apart, past), length)

    def single_entries() -> Iterator[float]:
        """One entry after the other towards ``x``, those farthest from it first."""
        away = arrays.host(past)
        count = min(away.size, SINGLE if away.size <= ENTRIES else 2)
        for index in np.argpartition(np.abs(away).ravel(), away.size - count)[away.size - count :]:
            mask = np.zeros(away.shape)
            mask.ravel()[index] = 1.0
            yield from on_line(past * arrays.from_numpy(mask, point), LITTLE, 1.0)

    def without_single_entries() -> Iterator[float]:
        """``point`` without one of its entries, the smallest first: what counts them may be better off."""
        values = arrays.host(point)
        stored = np.flatnonzero(values)
        count = min(stored.size, SINGLE if values.size <= ENTRIES else 2)
        if not count:
            return
        for index in stored[np.argpartition(np.abs(values.ravel()[stored]), count - 1)[:count]]:
            mask = np.zeros(values.shape)
            mask.ravel()[index] = -1.0
            yield from on_line(point * arrays.from_numpy(mask, point), 1.0)

    def neighbours() -> Iterator[float]:
        """The prox of points near ``x``: all in the term's domain; for a convex term also points on the way there."""
        random = np.random.default_rng(0)
        for share in (1e-3, 0.03, 0.3, 0.3):
            noise = arrays.from_numpy(random.standard_normal(tuple(point.shape)), point)
            rival = arrays.as_kind(sub.term.prox(x + (share * (far + size) / shape) * noise, 1.0 / tau), point)
            apart = rival - point
            yield from on_line(apart, 1.0, LITTLE) if sub.term.is_convex else on_line(apart, 1.0)

    has_entries = not arrays.is_elsewhere(point)
    is_dense = has_entries and not arrays.is_sparse(point)
    lines: list[Callable[[], Iterator[float]]] = []
    if has_entries:
        lines.append(lambda: on_line(arrays.on_support(past, point), LITTLE, -LITTLE))
    lines.append(lambda: on_line(point, LITTLE, -LITTLE, -1.0))
    if is_dense:
        lines.append(lambda: on_line(past, LITTLE, -LITTLE, 1.0))
    everywhere = [off_line, single_entries, without_single_entries, neighbours] if is_dense else [off_line]
    tried = [*lines, *everywhere] if thorough else [lines[int(sub.rng.integers(len(lines)))]]
    best = max((found for excesses in tried for found in excesses()), default=0.0)
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
        center = arrays.gradient_step(truth.source, truth.source_gradient, truth.tau)
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
    room += claim.tau * (8 * arrays.unit_roundoff(truth.point) * arrays.norm(truth.point)) ** 2
    if claim.change is not None and abs(claim.change - change) > room:  # it may be a difference of two values of H
        room += 8 * sub.value_slack(sub.coupling_value_at_previous())
    return change, room
