"""The prox-linear update: one gradient-prox step, extrapolated if asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tecu import arrays
from tecu.arrays import Array
from tecu.backtracking import backtrack
from tecu.in_place import gradient_step
from tecu.problem import SubProblem
from tecu.rivals import beaten_prox
from tecu.settings import is_number, make_plain
from tecu.state import Outcome
from tecu.updates.base import Step
from tecu.updates.extrapolation import Extrapolation, Plan

EASE = 0.99  # a constant found by back-tracking is worth a little less at each extrapolated step that went well


@dataclass(frozen=True)
class ProxLinear:
    r"""``u+ = prox(u - grad H(u) / gamma, 1 / gamma)`` with ``gamma = step_factor L``.

    ``L`` is the coupling's Lipschitz constant where it offers one, otherwise the smallest constant that the step
    satisfied in back-tracking. ``Psi`` falls by ``a ||move||^2`` with ``a = (gamma - L)/2``, or ``gamma - L/2`` for a
    convex term; so ``step_factor > 1``.

    Parameters
    ----------
    step_factor
        ``gamma / L``.
    extrapolation
        ``None``, :class:`Inertial` (iPALM) or :class:`Nesterov` (BCU).
    safeguard
        Redo an extrapolated step that does not lower the Lyapunov function enough. ``False`` is the published method,
        whose first step, from a block at rest (``w = u``), is as long as the others.

    Examples
    --------
    >>> import tecu
    >>> tecu.ProxLinear(step_factor=1.5, extrapolation=tecu.Inertial(0.2, 0.2)).kind
    'prox-linear'
    """

    step_factor: float = 1.1
    extrapolation: Extrapolation | None = None
    safeguard: bool = True
    kind: ClassVar[str] = "prox-linear"
    theorem: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if not (is_number(self.step_factor) and 1 < self.step_factor < math.inf):
            raise ValueError(f"ProxLinear needs step_factor > 1 (gamma > L), got step_factor={self.step_factor!r}")
        if self.extrapolation is not None and not callable(getattr(self.extrapolation, "plan", None)):
            raise TypeError(
                f"ProxLinear: extrapolation must be Inertial(), Nesterov() or None, got {self.extrapolation!r}"
            )
        make_plain(self, "step_factor")

    def visit(self, sub: SubProblem) -> Step:
        """One step; two if an extrapolated one has to be redone."""
        lipschitz = sub.lipschitz()
        if self.extrapolation is not None and (sub.before is not None or not self.safeguard):
            known = lipschitz if lipschitz is not None else float(sub.notes.get("curvature", 0.0))
            if known > 0.0:
                return self._extrapolated(sub, known, self.extrapolation)
        return self._plain(sub, lipschitz, Outcome.STEP, weight=0.0)

    def _plain(
        self, sub: SubProblem, lipschitz: float | None, outcome: Outcome, weight: float, gamma: float = 0.0
    ) -> Step:
        own, value = None, None
        if lipschitz is None:
            gradient = sub.coupling_at_previous()[1]
            u, gamma, lipschitz, value = backtrack(sub, sub.previous, gradient, factor=self.step_factor)
            term = float(sub.term.value(u))
        else:
            gamma = max(gamma, self.step_factor * lipschitz)
            gamma = gamma if gamma >= arrays.least_divisor(sub.previous) else 1.0  # H does not depend on the block here
            own = sub.own_prox_linear(gamma)
            u, term = _prox_step(sub, gamma) if own is None else (own.u, float(sub.term.value(own.u)))
        if own is None:
            gradient = sub.coupling_at_previous()[1]
            move, fault = self._move(sub, u, gradient, gamma, term, sub.previous)
        else:
            move, fault = own.move, None
            gain = sub.term_at_previous() - term - own.slope - 0.5 * gamma * move * move
            if not gain >= 0.0:  # rounding or a fault: the gradient tells
                fault = self._move(sub, u, sub.coupling_at_previous()[1], gamma, term, sub.previous)[1]
        descent = gamma - lipschitz / 2 if sub.term.is_convex else (gamma - lipschitz) / 2
        # Back-tracking may have found a longer step than the extrapolated one, which promises less.
        weight = min(weight, max(descent, 0.0) / 2)
        return Step(
            u, outcome, 0.0, center=sub.previous, source=sub.previous, tau=gamma, lipschitz=lipschitz,
            descent=descent - weight, weight=weight, term=term, move=move, fault=fault,
            slope=math.nan if own is None else own.slope, coupling=value,
        )  # fmt: skip

    def _extrapolated(self, sub: SubProblem, lipschitz: float, rule: Extrapolation) -> Step:
        plan = rule.plan(sub.notes, lipschitz, self.step_factor)
        center = source = sub.previous
        if sub.before is not None:
            last = sub.previous - sub.before
            center = sub.previous + plan.alpha * last
            source = center if plan.beta == plan.alpha else sub.previous + plan.beta * last
        gradient = sub.coupling_grad(source)
        u, term = sub.forward_backward(center, gradient, plan.gamma)
        move, fault = self._move(sub, u, gradient, plan.gamma, term, center)
        value = sub.coupling_value(u) if self.safeguard else None
        # Back where it began, held by a bound, say, it looks like a block at rest, though a plain step may move.
        led_back = move == 0.0 and (sub.previous_move or 0.0) > 0.0
        if value is not None and (led_back or not _falls_enough(sub, value, term, move, plan)):
            constant = lipschitz if sub.lipschitz() is not None else None
            return self._plain(sub, constant, Outcome.REDONE, plan.weight, plan.gamma)
        if (
            self.safeguard and sub.lipschitz() is None
        ):  # by back-tracking: try a longer step next time, the safeguard watches
            sub.notes["curvature"] = EASE * lipschitz
        sub.coupling_value_at_previous()
        return Step(
            u, Outcome.EXTRAPOLATED, 0.0, center=center, source=source, tau=plan.gamma, lipschitz=lipschitz,
            descent=plan.descent, weight=plan.weight, term=term, move=move, fault=fault, coupling=value,
        )  # fmt: skip

    def _move(
        self, sub: SubProblem, u: Array, gradient: Array, gamma: float, term: float, center: Array
    ) -> tuple[float, str | None]:
        """``||u - previous||``, and a sentence if ``previous`` beats ``u`` as prox of ``center - gradient / gamma``."""
        move, slope = arrays.inners_with_difference(u, sub.previous, gradient)
        gain = sub.term_at_previous() - term - slope
        if center is sub.previous:
            gain -= 0.5 * gamma * move * move
        else:
            far, near = arrays.distance(u, center), arrays.distance(sub.previous, center)
            gain -= 0.5 * gamma * (far - near) * (far + near)  # a product becomes infinite where a power is an error
        if gain >= 0.0:
            return move, None
        r, size = arrays.unit_roundoff(u), arrays.norm(gradient)
        # On a curved set, such as a ball, ``previous`` may lean out by rounding and gain what that is worth.
        lean = 32 * r * math.sqrt(math.prod(u.shape)) * max(1.0, sub.size_of_previous())
        slack = (sub.rounding(gamma) + 8 * r * size) * move + (size + gamma * move) * lean
        slack += 8 * r * max(abs(term), abs(sub.term_at_previous()))
        if gain < -slack:
            return move, f"the prox of block {sub.block!r} is not a minimiser: staying put is better by {-gain:.3g}"
        return move, None

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """The prox against rivals; and a step that the coupling made by itself against the gradient and the prox."""
        if math.isnan(step.slope):
            gradient = sub.coupling_grad(step.source)
            value = float(sub.term.value(step.u))
            if not abs(value - step.term) <= 1e-3 * abs(value) + 64 * sub.rounding(step.tau) * max(step.move, 1.0):
                return (
                    f"the term of block {sub.block!r} claimed {step.term:.6g} with its prox, its value is {value:.6g}"
                )
            x = gradient_step(step.center, gradient, step.tau)
            return beaten_prox(sub, x, step.tau, step.u, thorough=thorough)
        gradient = sub.coupling_at_previous()[1]
        truth, _ = _prox_step(sub, step.tau)
        term, apart = float(sub.term.value(step.u)), step.u - truth
        # term(v) + <gradient, v - previous> + tau/2 ||v - previous||^2 at step.u, less the same at the true minimiser
        middle = 0.5 * (step.u + truth) - sub.previous
        excess = term - float(sub.term.value(truth)) + arrays.inner(gradient, apart)
        excess += step.tau * arrays.inner(apart, middle)
        r, size, move = arrays.unit_roundoff(step.u), arrays.norm(gradient), arrays.distance(step.u, sub.previous)
        slack = 64 * (sub.rounding(step.tau) + r * size) * (arrays.norm(apart) + r * size / step.tau) + 8 * r * abs(
            term
        )
        if not excess <= slack:
            return f"the coupling's own prox-linear step of block {sub.block!r} is not a minimiser, by {excess:.3g}"
        slope = arrays.inner(gradient, step.u - sub.previous)
        longest = max(move, step.move)  # the claims may be of ``u`` before it was rounded, perhaps to ``previous``
        for name, said, true, room in (
            ("slope", step.slope, slope, 1e-3 * abs(slope) + 64 * sub.rounding(step.tau) * longest),
            ("move", step.move, move, 1e-3 * move + 8 * r * arrays.norm(step.u)),
        ):
            if not abs(said - true) <= room:
                return f"the coupling claimed a wrong {name} of block {sub.block!r}: {said:.6g} instead of {true:.6g}"
        return None


def _prox_step(sub: SubProblem, gamma: float) -> tuple[Array, float]:
    gradient = sub.coupling_at_previous()[1]
    return sub.forward_backward(sub.previous, gradient, gamma)


def _falls_enough(sub: SubProblem, after: float, term: float, move: float, plan: Plan) -> bool:
    before = sub.coupling_value_at_previous()
    change = term - sub.term_at_previous() + after - before
    earlier = sub.previous_move or 0.0
    held = sub.lyapunov_weight * earlier * earlier
    return change + (plan.weight + plan.descent) * move * move <= held + sub.value_slack(after, before)
