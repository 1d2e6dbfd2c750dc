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
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import SubProblem
from tecu.rounding import grain, lean_on_set
from tecu.tolerance import Tolerance


@dataclass(frozen=True)
class Numbers:
    """All that the tests compare, for a strategy that knows it without forming the arrays."""

    error_norm: float  # ||e||
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
    error_norm: float | None = None


class Estimate:
    """A judged point: ``u~`` with its error ``e``. What the tests may not need is computed when asked for.

    Most proposals are refused for the size of ``e`` alone, so the rest should cost nothing.
    """

    def __init__(
        self,
        sub: SubProblem,
        source: Array,  # u
        point: Array,  # u~
        tau: float,
        error: Array | None,  # e; None where the strategy gave its numbers only
        source_gradient: Array | None = None,  # grad phi(u), where known
        numbers: Numbers | None = None,
        error_norm: float | None = None,
        coupling: float | None = None,  # H(u~), where known
    ) -> None:
        self.sub, self.source, self.point, self.tau, self.error = sub, source, point, tau, error
        self._source_gradient, self.numbers = source_gradient, numbers
        self.known_coupling = coupling
        self._error_norm = numbers.error_norm if numbers is not None else error_norm

    @cached_property
    def error_norm(self) -> float:
        """``||e||``."""
        return arrays.norm(self.error) if self._error_norm is None else self._error_norm

    @cached_property
    def move(self) -> float:
        """``||u~ - previous||``."""
        known = self.__dict__.get("_products")  # which most proposals never need
        return arrays.distance(self.point, self.sub.previous) if known is None else known.move

    @cached_property
    def term(self) -> float:
        """``term(u~)``."""
        return float(self.sub.term.value(self.point))

    @cached_property
    def floor(self) -> float:
        """What rounding alone may leave of ``||e||``."""
        return self.sub.rounding(self.tau)

    @cached_property
    def source_gradient(self) -> Array:
        """``grad phi(u)``."""
        return self.sub.grad(self.source) if self._source_gradient is None else self._source_gradient

    @cached_property
    def error_along_move(self) -> float:
        """``<e, u~ - previous>``."""
        return self._products.error_along_move if self.numbers is None else self.numbers.error_along_move

    @property
    def source_slope(self) -> float:
        """``<grad phi(u), u~ - previous>``."""
        return self._products.source_slope

    @property
    def step_along_move(self) -> float:
        """``<u~ - u, u~ - previous>``."""
        return self._products.step_along_move

    @property
    def step_and_slope(self) -> tuple[float, float]:
        """``||u~ - u||`` and ``<grad phi(u), u~ - u>``."""
        return self._products.step, self._products.slope_of_step

    @cached_property
    def _products(self) -> Products:
        return Products.of(self)

    @cached_property
    def slope(self) -> float:
        """``<grad phi(u~), u~ - previous>``, without forming the gradient."""
        return self.source_slope + self.tau * self.step_along_move + self.error_along_move

    @cached_property
    def rise(self) -> tuple[float, float]:
        """``F(u~) - F(previous)`` and the rounding it may carry.

        Where ``H`` is quadratic, ``H(u~) - H(previous)`` is the mean of the two gradients times the move, which does
        not cancel; otherwise the values are subtracted.
        """
        sub = self.sub
        start_term = sub.term_at_previous()
        slack = 8 * arrays.unit_roundoff(sub.previous) * max(abs(self.term), abs(start_term))
        if self.numbers is not None:
            return self.numbers.change, slack + self.floor * self.move
        if sub.is_quadratic:
            start = sub.coupling_at_previous()[1]
            start_slope = self._products.start_slope
            if start_slope is None:  # the gradient was not known when the products were made
                start_slope = arrays.inner(start, self.point - sub.previous)
            # grad phi(u~) holds eta (u~ - previous): half of it along the move is the proximal term itself
            change = 0.5 * (start_slope + self.slope)
            return self.term - start_term + change, slack + self.floor * self.move + lean_on_set(sub)
        if self.known_coupling is None:
            self.known_coupling = sub.coupling_value(self.point)
        after, before = self.known_coupling, sub.coupling_value_at_previous()
        change = after - before + 0.5 * sub.eta * self.move * self.move
        return self.term - start_term + change, slack + sub.value_slack(after, before) + grain(sub, self.tau)

    @property
    def is_finite(self) -> bool:
        """Whether nothing overflowed."""
        return math.isfinite(self.error_norm) and math.isfinite(self.move) and math.isfinite(self.term)


class Products(NamedTuple):
    """The inner products that the tests need of large arrays, from one pass over them."""

    error_along_move: float  # <e, u~ - previous>
    source_slope: float  # <grad phi(u), u~ - previous>
    step_along_move: float  # <u~ - u, u~ - previous>
    start_slope: float | None  # <grad phi(previous), u~ - previous>, if that gradient is known
    slope_of_step: float  # <grad phi(u), u~ - u>
    step: float  # ||u~ - u||
    move: float  # ||u~ - previous||

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # a point that is not finite is refused for its move
    def of(cls, found: Estimate) -> Products:
        """Those of an estimate that has its arrays."""
        sub, source_gradient = found.sub, found.source_gradient
        start = sub.known_start()
        totals = np.zeros(7)
        for e, g, g0, point, source, previous in arrays.pieces(
            found.error, source_gradient, source_gradient if start is None else start, found.point, found.source,
            sub.previous,
        ):  # fmt: skip
            move, step = point - previous, point - source
            pairs = ((e, move), (g, move), (step, move), (g0, move), (g, step), (step, step), (move, move))
            totals += [arrays.inner(a, b) for a, b in pairs]
        error, slope, along, start_slope, slope_of_step, *squares = map(float, totals)
        lengths = [math.sqrt(square) for square in squares]
        for i, other in enumerate((found.source, sub.previous)):
            if not 1e-145 < lengths[i] < math.inf:  # a square that leaves the range of float64 needs the careful norm
                lengths[i] = arrays.distance(found.point, other)
        return cls(error, slope, along, None if start is None else start_slope, slope_of_step, *lengths)


def estimate(sub: SubProblem, candidate: Candidate, tau: float | None = None) -> Estimate:
    """Complete what the candidate does not claim: ``u~`` and ``e``.

    A ``tau`` so large that the step drowns in rounding is not taken (:meth:`~tecu.SubProblem.trusts`), and
    back-tracking never rests on a claimed gradient: with a false one it would end at such a ``tau``. Where ``H`` is
    quadratic in the block, ``grad phi(u) - grad phi(u~)`` is the Hessian of ``u - u~``: the error is then free of
    cancellation.
    """
    u, gradient, point, error = candidate.u, candidate.gradient, candidate.prox_point, candidate.error
    step, coupling = candidate.tau if tau is None else tau, None
    if step is not None and not sub.trusts(step, afresh=tau is not None):
        step = None
    if point is None or step is None or step != candidate.tau:
        if gradient is None or (step is None and sub.lipschitz() is None):
            gradient = sub.grad(u)
        point, step, coupling = sub.step_with_coupling(u, gradient, step)
        if not sub.trusts(step):  # back-tracking among values that are all noise
            point, step, coupling = sub.step_with_coupling(u, gradient, sub.largest_tau())
        error = None  # a claimed error belongs to the claimed prox point
    elif candidate.numbers is not None:
        return Estimate(sub, u, point, step, None, gradient, numbers=candidate.numbers)
    if error is not None:
        return Estimate(sub, u, point, step, error, gradient, error_norm=candidate.error_norm)
    difference = u - point
    product = sub.hessian(difference)
    if product is not None:
        return Estimate(sub, u, point, step, step * difference - product, gradient)
    gradient = sub.grad(u) if gradient is None else gradient
    error = step * difference - (gradient - sub.grad(point))
    return Estimate(sub, u, point, step, error, gradient, coupling=coupling)


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
    tolerance = rule.own_move_factor * found.move if bound is None or own_move else bound
    if not found.error_norm <= max(tolerance, found.floor) or not math.isfinite(found.error_norm):
        return Judged(Judgement.GO_ON, tolerance)
    if not sub.is_quadratic and not found.is_finite:  # a coupling is not asked for its value at such a point
        return Judged(Judgement.GO_ON, tolerance)
    change, slack = found.rise
    if not found.is_finite:
        return Judged(Judgement.GO_ON, tolerance)
    allowed = 0.0 if own_move else found.error_along_move
    if not change <= allowed + slack:
        return Judged(Judgement.NO_DESCENT, tolerance)
    if found.error_norm > tolerance:
        return Judged(Judgement.ACCEPT_BY_FLOOR, found.floor)
    return Judged(Judgement.ACCEPT_BY_OWN_MOVE if own_move else Judgement.ACCEPT, tolerance)
