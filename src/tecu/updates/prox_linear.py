"""The prox-linear update: one gradient-prox step, extrapolated if asked."""

from __future__ import annotations

from dataclasses import dataclass

from tecu import arrays
from tecu.arrays import Array
from tecu.backtracking import backtrack
from tecu.problem import SubProblem
from tecu.state import Outcome
from tecu.updates.base import Step
from tecu.updates.extrapolation import Extrapolation, Plan


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
        Redo an extrapolated step that does not lower the Lyapunov function enough. ``False`` is the published method.

    Examples
    --------
    >>> import tecu
    >>> tecu.ProxLinear(step_factor=1.5, extrapolation=tecu.Inertial(0.2, 0.2)).kind
    'prox-linear'
    """

    step_factor: float = 1.1
    extrapolation: Extrapolation | None = None
    safeguard: bool = True
    kind: str = "prox-linear"
    theorem: str | None = None

    def __post_init__(self) -> None:
        if not self.step_factor > 1:
            raise ValueError(f"ProxLinear needs step_factor > 1 (gamma > L), got step_factor={self.step_factor}")

    def visit(self, sub: SubProblem) -> Step:
        """One step; two if an extrapolated one has to be redone."""
        lipschitz = sub.lipschitz()
        if self.extrapolation is not None and sub.before is not None:
            known = lipschitz if lipschitz is not None else float(sub.memory.get("curvature", 0.0))
            if known > 0.0:
                return self._extrapolated(sub, known, self.extrapolation)
        return self._plain(sub, lipschitz, Outcome.STEP, weight=0.0)

    def _plain(
        self, sub: SubProblem, lipschitz: float | None, outcome: Outcome, weight: float, gamma: float = 0.0
    ) -> Step:
        gradient = sub.coupling_at_previous()[1]
        if lipschitz is None:
            u, gamma, lipschitz = backtrack(sub, sub.previous, gradient, factor=self.step_factor)
        else:
            gamma = max(gamma, self.step_factor * lipschitz) or 1.0  # L = 0: H does not depend on the block here
            u = sub.prox(sub.previous - gradient / gamma, 1.0 / gamma)
        term = float(sub.term.value(u))
        fault = self._prox_fault(sub, u, gradient, gamma, term, sub.previous)
        descent = gamma - lipschitz / 2 if sub.term.is_convex else (gamma - lipschitz) / 2
        return Step(
            u, outcome, 0.0, center=sub.previous, source=sub.previous, tau=gamma, lipschitz=lipschitz,
            descent=descent - weight, weight=weight, term=term, fault=fault,
        )  # fmt: skip

    def _extrapolated(self, sub: SubProblem, lipschitz: float, rule: Extrapolation) -> Step:
        plan = rule.plan(sub.memory, lipschitz, self.step_factor)
        last = sub.previous - sub.before
        center = sub.previous + plan.alpha * last
        source = center if plan.beta == plan.alpha else sub.previous + plan.beta * last
        gradient = sub.coupling_grad(source)
        u = sub.prox(center - gradient / plan.gamma, 1.0 / plan.gamma)
        term = float(sub.term.value(u))
        fault = self._prox_fault(sub, u, gradient, plan.gamma, term, center)
        if self.safeguard and not _falls_enough(sub, u, term, plan):
            constant = lipschitz if sub.lipschitz() is not None else None
            return self._plain(sub, constant, Outcome.REDONE, plan.weight, plan.gamma)
        sub.coupling_value_at_previous()
        return Step(
            u, Outcome.EXTRAPOLATED, 0.0, center=center, source=source, tau=plan.gamma, lipschitz=lipschitz,
            descent=plan.descent, weight=plan.weight, term=term, fault=fault,
        )  # fmt: skip

    def _prox_fault(
        self, sub: SubProblem, u: Array, gradient: Array, gamma: float, term: float, center: Array
    ) -> str | None:
        """A right prox at ``x = center - gradient / gamma`` is not beaten by ``previous``."""
        move = u - sub.previous
        gain = sub.term_at_previous() - term - arrays.inner(gradient, move)
        if center is sub.previous:
            gain -= 0.5 * gamma * arrays.norm(move) ** 2
        else:
            gain -= 0.5 * gamma * (arrays.distance(u, center) ** 2 - arrays.distance(sub.previous, center) ** 2)
        slack = sub.rounding(u, arrays.norm(gradient), gamma) * arrays.norm(move)
        slack += 8 * arrays.unit_roundoff(sub.previous) * max(abs(term), abs(sub.term_at_previous()))
        if gain < -slack:
            return f"the prox of block {sub.block!r} is not a minimiser: staying put would be better by {-gain:.3g}"
        return None

    def audit(self, sub: SubProblem, step: Step) -> str | None:
        """The gradient of the restricted coupling against the coupling's own."""
        own = sub.smooth.coupling.grad(sub.block, {**sub.others, sub.block: step.source})
        used = sub.smooth.grad(step.source)
        gap, allowed = arrays.distance(own, used), 64 * sub.rounding(step.source, arrays.norm(own), step.tau)
        if not gap <= allowed:
            return f"restrict() and grad() of the coupling differ for block {sub.block!r} by {gap:.3g}"
        return None


def _falls_enough(sub: SubProblem, u: Array, term: float, plan: Plan) -> bool:
    after, before = sub.coupling_value(u), sub.coupling_value_at_previous()
    change = term - sub.term_at_previous() + after - before
    held = sub.lyapunov_weight * (sub.previous_move or 0.0) ** 2
    move = arrays.distance(u, sub.previous)
    return change + (plan.weight + plan.descent) * move**2 <= held + sub.value_slack(after, before)
