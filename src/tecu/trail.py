"""What the visits of a run leave behind: for the visit that comes next, for the audit and the residual at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import Problem, SubProblem
from tecu.protocols import Restricted
from tecu.state import Outcome, State, Visit, VisitLog
from tecu.updates.base import Step, Update


@dataclass(frozen=True)
class Last:
    """A block's latest visit."""

    visit: int  # its index
    step: Step
    z: Mapping[str, Array]  # the blocks when it was made, this one as it was before


@dataclass
class Trail:
    """Of the run at hand only: a state that is saved and resumed knows nothing of it."""

    last: dict[str, Last] = field(default_factory=dict)
    claimed: dict[str, Last] = field(default_factory=dict)  # each block's latest visit that took a strategy at its word
    log: list[Visit] = field(default_factory=list)  # which the states of this run share, and those of no other
    settled: Restricted | None = None  # of the visit just made, where it has settled
    early: State | None = None  # after the first sweep, where somebody may change the problem during the run

    def note(self, block: str, latest: Last) -> None:
        """Keep a visit: a strategy that was overruled since has still been believed before."""
        self.last[block] = latest
        if latest.step.claim is not None and latest.step.outcome is not Outcome.FELL_BACK:
            self.claimed[block] = latest

    def forget(self) -> None:
        """Keep no visit: they may be of a sweep that was given up."""
        self.last.clear()
        self.claimed.clear()

    def restrict(self, problem: Problem, block: str, z: Mapping[str, Array], *, keep: bool = False) -> Restricted:
        """``H`` as a function of the block that is visited next, with what the visit before has left for it."""
        restricted = problem.restrict(block, z)
        if self.settled is not None:
            restricted.inherit(self.settled)
        if not keep:
            self.settled = None
        return restricted

    def rested(self) -> dict[str, Step]:
        """The blocks whose last visit found no step, with the one that was refused last."""
        return {block: last.step for block, last in self.last.items() if last.step.outcome is Outcome.RESTED}

    def settle(self, problem: Problem, z: Mapping[str, Array]) -> None:
        """Before the first visit: let the blocks share what it takes to know ``H``, where the coupling can."""
        block = next(iter(z))
        restricted = problem.restrict(block, z)
        if type(restricted).settle is not Restricted.settle:
            restricted.settle(z[block])
            self.settled = restricted


def audits(
    problem: Problem, updates: Mapping[str, Update], state: State, trail: Trail
) -> dict[int, Callable[[], str | None]]:
    """The audits of each block's last visit, and of the last one at which its strategy was believed, if not made yet.

    By the visits' indices, calls that return a fault, of which none needs another.
    """

    def fault(block: str, latest: Last) -> str | None:
        sub = SubProblem.of(problem, block, latest.z, memory=dict(state.memory[block]))
        return updates[block].audit(sub, latest.step)

    found = {each.visit: (block, each) for kept in (trail.last, trail.claimed) for block, each in kept.items()}
    # The latest first: of that place the coupling still knows most.
    latest_first = sorted(found, reverse=True)
    return {visit: partial(fault, *found[visit]) for visit in latest_first if not state.visits[visit].audited}


def with_faults(state: State, faults: Mapping[int, str | None]) -> State:
    """The state with some visits audited."""
    visits = list(state.visits)
    for place, found in faults.items():
        visits[place] = replace(visits[place], audited=True, fault=visits[place].fault or found)
    return replace(state, visits=VisitLog(visits, len(visits)))


def residual(problem: Problem, state: State, trail: Trail) -> float:
    """``||P||`` for an element ``P`` of the subdifferential of ``Phi`` at the end of a run.

    A block's last visit left ``g = tau (center - u) - grad phi(source)`` in the subdifferential of its term. So
    ``P_b = g + grad_b H(z) + 2 weight (z_b - before_b)`` for the block, ``-2 weight (z_b - before_b)`` for its past.
    ``tau r ||u||``, which rounding may hide in ``tau (center - u)``, is added: a step that is too short to be seen
    leaves no residual otherwise.
    """
    if set(trail.last) != set(state.z) or trail.rested():  # resumed, or no step was made: the problem's own measure
        return problem.stationarity(state.z)
    parts = []
    for block, latest in trail.last.items():
        step = latest.step
        sub = SubProblem.of(problem, block, latest.z, step.eta)
        subgradient = step.tau * (step.center - step.u) - sub.grad(step.source)
        pull = 2 * step.weight * (step.u - sub.previous)
        element = subgradient + problem.restrict(block, state.z).grad(step.u) + pull
        hidden = step.tau * arrays.unit_roundoff(step.u) * arrays.norm(step.u)
        parts += [arrays.norm(element) + hidden, arrays.norm(pull)]
    return math.hypot(*parts)
