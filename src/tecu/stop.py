"""When to stop. Rules are pure functions of the state; combine them with ``|`` and ``&``.

>>> from tecu import stop
>>> stop.RelativeChange(1e-4) | stop.MaxIter(500)
RelativeChange(tol=0.0001, patience=1) | MaxIter(count=500)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tecu.problem import Problem
from tecu.settings import is_number, is_whole
from tecu.state import State, Status


class Rule:
    """A stop rule: ``check`` answers with a :class:`~tecu.state.Status` to stop, or ``None`` to go on."""

    def check(self, state: State, problem: Problem) -> Status | None:
        """The status to stop with, or ``None``."""
        raise TypeError(f"{type(self).__name__} must define check(state, problem)")

    def __or__(self, other: Rule) -> Rule:
        return Either(self, _checked(other))

    def __and__(self, other: Rule) -> Rule:
        return Both(self, _checked(other))


def _checked(other: Rule) -> Rule:
    if not isinstance(other, Rule):
        raise TypeError(f"a stop rule is combined with another rule such as stop.MaxIter(100), got {other!r}")
    return other


@dataclass(frozen=True)
class Either(Rule):
    """Stops as soon as one of two rules does."""

    first: Rule
    second: Rule

    def check(self, state: State, problem: Problem) -> Status | None:
        """The first answer that is not ``None``."""
        return self.first.check(state, problem) or self.second.check(state, problem)

    def __repr__(self) -> str:
        return f"{self.first!r} | {self.second!r}"


@dataclass(frozen=True)
class Both(Rule):
    """Stops when both rules do, with the status of the first."""

    first: Rule
    second: Rule

    def check(self, state: State, problem: Problem) -> Status | None:
        """The first status, if there are two."""
        status = self.first.check(state, problem)
        return status if status is not None and self.second.check(state, problem) is not None else None

    def __repr__(self) -> str:
        return f"({self.first!r}) & ({self.second!r})"


@dataclass(frozen=True)
class MaxIter(Rule):
    """At most ``count`` sweeps, counted over the whole run, resumed or not."""

    count: int

    def __post_init__(self) -> None:
        if not (is_whole(self.count) and self.count >= 0):
            raise ValueError(f"MaxIter needs a whole count >= 0, got {self.count!r}")

    def check(self, state: State, problem: Problem) -> Status | None:
        """``t >= count``."""
        return Status.MAX_ITER if state.t >= self.count else None


@dataclass(frozen=True)
class MaxTime(Rule):
    """At most ``seconds`` since the run was begun, less its interruptions; looked at after a sweep and its callbacks.

    All that a run does counts, the look at its start, sweeps, callbacks such as a checkpoint and stop rules; so it may
    be over before its first sweep.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not (is_number(self.seconds) and self.seconds >= 0):
            raise ValueError(f"MaxTime needs seconds >= 0, got {self.seconds!r}")

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether the time is used up."""
        return Status.MAX_TIME if state.elapsed >= self.seconds else None


@dataclass(frozen=True)
class RelativeChange(Rule):
    """``max(||z_b+ - z_b|| / ||z_b|| over the blocks, |Psi+ - Psi| / |Psi|) < tol``, for ``patience`` sweeps in a row.

    The paper's rule, with guarded denominators. A small change is not convergence: look at
    ``result.certificate.residual`` too. A block visited several times in a sweep counts with the sum of its moves.
    """

    tol: float
    patience: int = 1

    def __post_init__(self) -> None:
        if not (is_number(self.tol) and is_whole(self.patience) and self.tol >= 0 and self.patience >= 1):
            raise ValueError(
                f"RelativeChange needs tol >= 0 and patience >= 1, got tol={self.tol!r}, patience={self.patience!r}"
            )

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether the last ``patience`` sweeps changed little."""
        if state.t < self.patience:
            return None
        sweeps = range(state.t, state.t - self.patience, -1)
        return Status.CONVERGED if all(relative_change(state, t) < self.tol for t in sweeps) else None


def relative_change(state: State, t: int) -> float:
    """The largest relative change of sweep ``t``, over the blocks and ``Psi``."""
    visits = state.visits.of_sweep(t)
    if not visits:
        return math.inf
    earlier = state.visits[visits[0].index - 1].value if visits[0].index else state.start_value
    changes = [_ratio(abs(visits[-1].value - earlier), abs(earlier))]
    for block in dict.fromkeys(visit.block for visit in visits):
        own = [visit for visit in visits if visit.block == block]
        changes.append(_ratio(math.fsum(visit.move for visit in own), own[0].norm))
    resting = set(state.z).difference(visit.block for visit in visits)
    for index in range(visits[0].index - 1, -1, -1):  # a block that rests counts with its latest visit
        if not resting:
            break
        visit = state.visits[index]
        if visit.block in resting:
            changes.append(_ratio(visit.move, visit.norm))
            resting.remove(visit.block)
    return math.inf if resting else max(changes)


def _ratio(change: float, size: float) -> float:
    """``change / size``; 0 for no change, infinite for a change from zero: such a block has not converged."""
    if change == 0.0:
        return 0.0
    return change / size if size > 0.0 else math.inf


@dataclass(frozen=True)
class Stationarity(Rule):
    """``problem.stationarity(z) <= tol``, looked at every ``every`` sweeps (it costs a gradient a block)."""

    tol: float
    every: int = 1

    def __post_init__(self) -> None:
        if not (is_number(self.tol) and is_whole(self.every) and self.tol >= 0 and self.every >= 1):
            raise ValueError(f"Stationarity needs tol >= 0 and every >= 1, got tol={self.tol!r}, every={self.every!r}")

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether a critical point is near."""
        if state.t % self.every:
            return None
        return Status.CONVERGED if problem.stationarity(state.z) <= self.tol else None


@dataclass(frozen=True)
class TargetValue(Rule):
    """``Psi(z) <= value``."""

    value: float

    def __post_init__(self) -> None:
        if not is_number(self.value):
            raise ValueError(f"TargetValue needs a number, got {self.value!r}")

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether the target is reached."""
        return Status.TARGET if state.value <= self.value else None


@dataclass(frozen=True)
class When(Rule):
    """A function ``state -> bool`` as a rule."""

    condition: Callable[[State], bool]

    def __post_init__(self) -> None:
        if not callable(self.condition):
            raise TypeError(f"When needs a function of the state, got {self.condition!r}")

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether the condition is true."""
        return Status.STOPPED if self.condition(state) else None
