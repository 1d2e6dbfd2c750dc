"""The exact proximal update."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tecu import arrays
from tecu.inexact import Candidate, estimate
from tecu.noise import VISITS
from tecu.problem import SubProblem
from tecu.settings import is_number, make_plain
from tecu.state import Outcome
from tecu.updates.base import Step


@dataclass(frozen=True)
class Proximal:
    r"""``u  in  argmin term(u) + H(u, others) + eta/2 ||u - previous||^2``, in closed form.

    Runs where the coupling's ``minimize`` has a closed form for the term at hand. ``Psi`` falls by
    ``eta/2 ||move||^2``.

    Examples
    --------
    >>> import tecu
    >>> tecu.Proximal(eta=0.5).kind
    'proximal'
    """

    eta: float = 1.0
    kind: ClassVar[str] = "proximal"
    theorem: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if not (is_number(self.eta) and 0 < self.eta < math.inf):
            raise ValueError(f"Proximal needs eta > 0, a finite number, got eta={self.eta!r}")
        make_plain(self, "eta")

    def visit(self, sub: SubProblem) -> Step:
        """Ask the coupling for the minimiser."""
        sub = sub.with_eta(self.eta)
        u = sub.smooth.minimize(sub.term, self.eta)
        if u is None:
            raise TypeError(no_closed_form(sub))
        u = sub.as_block(u, "the coupling's minimize")
        sub.coupling_value_at_previous()
        return Step(
            u,
            Outcome.EXACT,
            self.eta,
            center=u,
            source=u,
            tau=0.0,
            descent=self.eta / 2,
            error=0.0,
            room=self._room(sub),
        )

    def _room(self, sub: SubProblem) -> float:
        """``||e||^2 / eta``, what the rounding of an exact solution may cost, ``e`` its error by rounding.

        It shows where ``Psi`` itself is next to nothing: at a solution that fits its data exactly. The curvature that
        it grows with is looked at now and then: at each visit that would cost as much as some exact solutions.
        """
        known = sub.notes.get("measured_curvature")
        curvature = sub.measure_curvature() if known is None or sub.visits in VISITS else float(known) + self.eta
        error = sub.rounding(curvature)
        return error * error / self.eta

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """An exact minimiser is a fixed point of the prox-gradient map, and no worse than where it came from."""
        sub = sub.with_eta(self.eta)
        sub.coupling_at_previous()  # the floor of the tests rests on it
        found = estimate(sub, Candidate(step.u))
        stray = found.tau * arrays.distance(found.point, step.u)
        if stray > 1e3 * found.floor:
            return (
                f"the coupling's minimize for block {sub.block!r} is not exact: a prox-gradient step moves it "
                f"by {stray:.3g}, rounding explains {found.floor:.3g}"
            )
        after, before = sub.value(step.u), sub.value(sub.previous)
        if after > before + sub.value_slack(after, before) + step.room:
            return f"the coupling's minimize for block {sub.block!r} raised its sub-problem by {after - before:.3g}"
        return None


def no_closed_form(sub: SubProblem) -> str:
    """The sentence for a block whose exact update is not known."""
    return (
        f"block {sub.block!r}: Proximal needs a closed form, and {type(sub.smooth.coupling).__name__} has none "
        f"for the term {sub.term!r}; use Embed(strategies.ProxGradient()) or ProxLinear() instead"
    )
