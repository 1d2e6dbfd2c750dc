"""The solver: the only outer loop in the code base."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tecu import arrays, noise
from tecu.arrays import Array
from tecu.callbacks import Callback, checked_callbacks, close_all, says_stop
from tecu.checks import audit_due, is_only_ours, no_room, require_value, stands_still
from tecu.ending import certificate_of, fallen, rests
from tecu.fingerprint import differing, fingerprint
from tecu.gradient_tests import gradient_tests
from tecu.problem import Problem, SubProblem
from tecu.records import record, valued
from tecu.schedule import Schedule, make_order
from tecu.settings import is_whole
from tecu.state import Check, ForeignState, Result, Standing, State, Status, Visit, VisitLog
from tecu.stop import MaxIter, RelativeChange, Rule
from tecu.trail import Last, Trail, audits, with_faults
from tecu.updates.base import Update
from tecu.updates.proximal import Proximal, no_closed_form
from tecu.visited import divided

log = logging.getLogger("tecu")
SETTINGS = ("coupling's attributes", "terms", "updates", "schedule or seed")  # by which a state knows its solver


class _Diverged(Exception):
    """A block or the objective was not finite; carries the last good state."""

    def __init__(self, state: State, block: str, why: str = "") -> None:
        super().__init__(why or f"block {block!r} or the objective after its update is not finite{fallen(state)}")
        self.state = state


class Solver:
    r"""Visits the blocks of a problem, updating each in its own way.

    Parameters
    ----------
    problem
        What to minimise.
    updates
        An update a block, ``{"W": ProxLinear(), "D": Embed(strategies.ADMM())}``, or one for all blocks.
    schedule
        ``"cyclic"``, ``"shuffled"``, a list of blocks with repeats, or a function of the iteration.
    seed
        Of the shuffling, the audits and the strategies' random numbers.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, stop, terms
    >>> rng = np.random.default_rng(0)
    >>> Y = np.abs(rng.normal(size=(6, 8)))
    >>> problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.NonNegative(), "D": terms.NonNegative()})
    >>> solver = tecu.Solver(problem, tecu.ProxLinear())
    >>> result = solver.run({"W": np.ones((8, 2)), "D": rng.random((6, 2))}, stop=stop.MaxIter(20))
    >>> result.certificate.verdict.name
    'HOLDS'
    >>> bool(result.history["value"][-1] < result.history["value"][0])
    True
    """

    def __init__(
        self,
        problem: Problem,
        updates: Mapping[str, Update] | Update,
        schedule: Schedule = "cyclic",
        seed: int = 0,
    ) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(f"Solver: problem must be a tecu.Problem, got {problem!r}")
        if not (is_whole(seed) and seed >= 0):
            raise ValueError(f"Solver: seed must be a whole number >= 0, got {seed!r}")
        if not isinstance(updates, Mapping):
            updates = dict.fromkeys(problem.blocks, updates)
        for block in updates:
            if block not in problem.terms:
                raise ValueError(f"updates names block {block!r}, but the problem has {list(problem.blocks)}")
        for block in problem.blocks:
            if block not in updates:
                raise ValueError(f"block {block!r} has no update; updates has {list(updates)}")
            if isinstance(updates[block], type) or not callable(getattr(updates[block], "visit", None)):
                raise TypeError(
                    f"block {block!r}: {updates[block]!r} is not an update; "
                    "use Proximal(), ProxLinear() or Embed(strategy)"
                )
        self.problem, self.updates, self.seed = problem, dict(updates), seed
        self.warns_of_rest = True  # whether a block that never moved in a run is worth a warning
        self.schedule = schedule
        self._order = make_order(schedule, problem.blocks, seed)

    def iterate(self, start: Mapping[str, Array] | State | Result) -> Iterator[State]:
        """The states after sweep 1, 2, ... from a start, or the ones that follow a state; ends only if it diverges."""
        trail = Trail()
        state = self._begin(start, trail)
        try:
            while True:
                state = self._sweep(state, trail)
                yield state
        except _Diverged as problem:
            log.warning("%s; iteration %d is the last good one", problem, problem.state.t)

    def run(
        self,
        start: Mapping[str, Array] | State | Result,
        stop: Rule | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
    ) -> Result:
        """Iterate until a rule or a callback says stop.

        Parameters
        ----------
        start
            The blocks to start from, or a state or result to go on from.
        stop
            A rule of :mod:`tecu.stop`; ``RelativeChange(1e-4) | MaxIter(1000)`` unless given. ``MaxIter`` and
            ``MaxTime`` count the whole run, resumed or not; ``MaxTime`` counts callbacks and rules too.
        callbacks
            Called with each state; one that returns ``True`` stops the run. One that has a method ``close()`` is closed
            when the run ends, however that is.
        progress
            Show a progress line.
        """
        began = time.perf_counter()
        rule = RelativeChange(1e-4) | MaxIter(1000) if stop is None else stop
        if not isinstance(rule, Rule):
            raise TypeError(f"stop must be a rule such as stop.MaxIter(100), got {stop!r}")
        callbacks = checked_callbacks(callbacks)
        is_watched = bool(callbacks)
        trail, why = Trail(), ""
        try:
            if progress:
                from tecu.progress import ProgressLine

                callbacks.append(ProgressLine())
            state = self._begin(start, trail)
            first = state.t + 1
            began -= state.elapsed  # what it had taken before it was interrupted
            state = replace(state, elapsed=time.perf_counter() - began)
            status = rule.check(state, self.problem)
            if status is None and stands_still(state):  # a state that was saved then is not gone on from
                status = Status.STALLED
            while status is None:
                state = self._sweep(state, trail)
                if state.t == first and (is_watched or not is_only_ours(self.problem, state.z)):
                    trail.early = state
                # Every callback sees every state, also the last one.
                asked = [says_stop(callback(state)) for callback in callbacks]
                state = replace(state, elapsed=time.perf_counter() - began)
                status = rule.check(state, self.problem)
                if status is None and any(asked):
                    status = Status.STOPPED
                if status is None and stands_still(state):
                    status = Status.STALLED
        except _Diverged as trouble:
            log.warning("%s; iteration %d is the last good one", trouble, trouble.state.t)
            state, status, why = trouble.state, Status.DIVERGED, str(trouble)
            trail.forget()
        finally:
            close_all(callbacks)
        return self._finish(state, status, trail, why)

    def fingerprint(self) -> str:
        """The digests of coupling, terms, updates, schedule and seed, by which saved states know their solver."""
        return fingerprint(self.problem.coupling, self.problem.terms, self.updates, (self.schedule, self.seed))

    # -- start and end ------------------------------------------------------------------------------------------

    def _begin(self, start: Any, trail: Trail) -> State:
        if isinstance(start, Result):
            start = start.state
        if isinstance(start, State):
            mark = self.fingerprint()
            if start.fingerprint != mark:
                other = " and the ".join(differing(start.fingerprint, mark, SETTINGS)) or "problem"
                raise ForeignState(
                    f"this state belongs to another problem or to other settings: the {other} are not what they were; "
                    "resume with the solver it came from, or start anew from state.z. Attributes that change in a run, "
                    "such as counters, need names that begin with an underscore"
                )
            require_value(self.problem, start)
            trail.log = list(start.visits)  # somebody else may go on from the same state
            return start
        z = self.problem.check_start(start)
        for block, update in self.updates.items():
            if isinstance(update, Proximal):
                sub = SubProblem.of(self.problem, block, z, update.eta)
                if sub.smooth.minimize(sub.term, update.eta) is None:
                    raise TypeError(no_closed_form(sub))
        trail.settle(self.problem, z)
        h = float(self.problem.coupling.value(z))
        tests = self._tests(z, h, trail, 0)
        (mark,), checks = self.problem.answers([self.fingerprint], tests.values())
        standing = {
            block: Standing(float(term.value(z[block])), arrays.norm(z[block]))
            for block, term in self.problem.terms.items()
        }
        for block, own in standing.items():
            if not math.isfinite(own.term):
                raise ValueError(no_room(block, own.term, "the start, moved there by its own prox"))
        value = math.fsum([*(s.term for s in standing.values()), h])
        return State(
            t=0, z=z, before={}, memory={block: {} for block in z}, standing=standing, value=value,
            start_value=value, visits=VisitLog(trail.log, 0), seconds=0.0, best_value=value, best=z,
            checks=_in_order(z, tests, checks), fingerprint=mark,
        )  # fmt: skip

    def _finish(self, state: State, status: Status, trail: Trail, why: str) -> Result:
        z = state.z
        due = audits(self.problem, self.updates, state, trail)
        ways = {**state.before, **{block: step.center for block, step in trail.rested().items()}}
        tests = self._tests(z, float(self.problem.coupling.value(z)), trail, state.t, ways) if state.t else {}
        faults, checks = self.problem.answers(due.values(), tests.values())
        state = with_faults(state, dict(zip(due, faults, strict=True)))
        state = replace(state, checks=(*state.checks, *_in_order(z, tests, checks)))
        for sentence in rests(state) if self.warns_of_rest else ():
            warnings.warn(sentence, RuntimeWarning, stacklevel=3)
        return Result(state, status, certificate_of(self.problem, self.updates, state, trail, why))

    def _tests(
        self, z: Mapping[str, Array], value: float, trail: Trail, sweeps: int, before: Mapping[str, Array] | None = None
    ) -> dict[str, Callable[[], Check]]:
        """The tests of each block's gradient at ``z``, where ``H`` is ``value``, after so many sweeps."""
        restrict = partial(trail.restrict, self.problem, keep=True)  # one residual serves each block
        return gradient_tests(self.problem, z, value, self.seed + sweeps, restrict, at_start=sweeps == 0, before=before)

    # -- one sweep ----------------------------------------------------------------------------------------------

    def _sweep(self, state: State, trail: Trail) -> State:
        """Visit the blocks of one iteration and return the next state.

        ``Psi`` after a visit is read off at the next one's start, where it comes with the gradient; only after the last
        visit is it computed by itself.
        """
        began = time.perf_counter()
        t = state.t + 1
        z, before, memory = dict(state.z), dict(state.before), dict(state.memory)
        log_ = trail.log
        standing = dict(state.standing)
        pending: Visit | None = None
        known = state.coupling
        # A value that was handed on comes from the one a visit before, and carries the rounding of that one.
        older = state.visits[-2].value if len(state.visits) > 1 else state.start_value
        earlier = math.nan  # H before the visit that waits for its value
        self.problem.begin_sweep(z)
        for block in self._order(t):
            index = len(log_) + (pending is not None)
            entered = time.perf_counter()
            smooth = trail.restrict(self.problem, block, z)
            own, notes = divided(memory[block])
            sub = SubProblem(
                block, self.problem.terms[block], smooth, z[block], 0.0, own, dict(z), notes=notes,
                visits=standing[block].visits, previous_move=standing[block].move, before=before.get(block),
                lyapunov_weight=standing[block].weight, previous_term=standing[block].term,
                previous_size=standing[block].size, previous_coupling=known, seed=(self.seed, 2, index),
            )  # fmt: skip
            if sub.visits in noise.VISITS:
                noise.measure(sub)
            step = self.updates[block].visit(sub)
            h = sub.coupling_value_at_previous()
            value = h + math.fsum(s.term for s in standing.values())
            if pending is not None:
                log_.append(valued(pending, sub, (earlier, h), value))
            visit = record(self.updates[block].kind, sub, step, index, t, (h, older), value)
            older, earlier = value, h
            size = arrays.norm(step.u)
            if not (math.isfinite(visit.move) and math.isfinite(value) and math.isfinite(size)):
                del log_[len(state.visits) :]
                raise _Diverged(state, block)
            if audit_due(self.seed, index):
                fault = self.updates[block].audit(sub, step, thorough=False)
                visit = replace(visit, audited=True, fault=visit.fault or fault)
            trail.note(block, Last(index, step, dict(z)))
            known = step.coupling
            before[block], z[block] = z[block], step.u
            term = float(self.problem.terms[block].value(step.u)) if math.isnan(step.term) else step.term
            if not math.isfinite(term):
                del log_[len(state.visits) :]
                raise _Diverged(state, block, no_room(block, term, "the point that its update returned"))
            standing[block] = Standing(term, size, visit.move, standing[block].visits + 1, float(step.weight))
            memory[block] = sub.kept
            now = time.perf_counter()
            pending = replace(visit, seconds=now - entered, clock=state.seconds + now - began)
        assert pending is not None
        if known is None:
            known, trail.settled = sub.settle(step.u), sub.smooth
        value = known + math.fsum(s.term for s in standing.values())
        if not math.isfinite(value):
            del log_[len(state.visits) :]
            raise _Diverged(state, pending.block)
        log_.append(valued(pending, sub, (earlier, known), value))
        best, best_value = (z, value) if value <= state.best_value else (state.best, state.best_value)
        spent = time.perf_counter() - began
        return replace(
            state, t=t, z=z, before=before, memory=memory, standing=standing, value=value,
            visits=VisitLog(log_, len(log_)), seconds=state.seconds + spent, elapsed=state.elapsed + spent,
            best=best, best_value=best_value, coupling=known,
        )  # fmt: skip


def _in_order(z: Mapping[str, Array], tests: Iterable[str], checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks of some blocks in the order of the blocks."""
    found = dict(zip(tests, checks, strict=True))
    return tuple(found[block] for block in z if block in found)
