"""What is said of a run when it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tecu import arrays, noise
from tecu.certificate import Certificate, certify
from tecu.checks import other_value
from tecu.problem import Problem
from tecu.state import Outcome, State
from tecu.trail import Trail, residual
from tecu.updates.base import Update
from tecu.visited import divided

OVERRULED = (Outcome.FELL_BACK, Outcome.KEPT, Outcome.RESTED)  # the strategy's claims came to nothing
DEEP = 1e10  # times the size of the objective at the start


def certificate_of(
    problem: Problem, updates: Mapping[str, Update], state: State, trail: Trail, why: str = ""
) -> Certificate:
    """The certificate of a run that ended in ``state``; ``why`` it diverged, if it did."""
    no_theorem = [
        f"block {block!r}: {update.theorem}" for block, update in updates.items() if update.theorem is not None
    ]
    if why:
        no_theorem.append(f"the run diverged after iteration {state.t}: {why}")
    notes, changes = _notes(problem, state, bool(why)), _changes(problem, trail.early)
    found = certify(state, no_theorem, lambda: residual(problem, state, trail), notes, changes)
    doubt = None if found.holds else _doubt(problem, state)
    return found if doubt is None else replace(found, reason=f"{found.reason[:-1]}; {doubt}.")


def _changes(problem: Problem, early: State | None) -> list[str]:
    """A sentence if the problem is not what it was early in the run."""
    if early is None or any(map(arrays.is_elsewhere, early.z.values())):
        return []
    now = other_value(problem, early)
    if now is None:
        return []
    return [
        f"the problem was changed during the run, or the blocks of a state were: after iteration {early.t} the "
        f"objective was {early.value:.6g}, at the same blocks it is {now:.6g} now; to change it, end a run and start "
        "another from its blocks"
    ]


def _notes(problem: Problem, state: State, diverged: bool) -> list[str]:
    """What could not be checked."""
    notes = [f"block {b!r}: {note}" for b, term in problem.terms.items() for note in getattr(term, "unchecked", ())]
    for block, memory in state.memory.items():
        if (astray := divided(memory)[1].get("astray")) is not None:
            notes.append(
                f"block {block!r}: its sub-problems are bounded below. {astray} times in "
                f"{state.standing[block].visits} visits a strategy proposed a point that was not finite or over a "
                "million times larger than the block, and was not followed. If they are not bounded: a larger eta, "
                "or a bounded set as term"
            )
    if diverged and state.t:
        notes.append("visits before the run diverged were true to their claims; the last ones are not audited")
    elif _unaudited(state):
        notes.append("visits before this run was resumed were true to their claims; its last ones are not audited")
    return notes


def _unaudited(state: State) -> bool:
    """Whether a block's last visit, or the last one that took its strategy at its word, was not audited."""
    latest = {}
    for visit in state.visits:
        latest[visit.block, False] = visit
        if visit.kind == "embed" and visit.outcome not in OVERRULED:
            latest[visit.block, True] = visit
    return not all(visit.audited for visit in latest.values())


def _doubt(problem: Problem, state: State) -> str | None:
    """What the values of a user's own ``H`` may have to do with it that a certificate does not hold."""
    parts = [problem.restrict(block, state.z) for block in problem.blocks]
    if not any(part.rounds_unsaid() for part in parts) or any(map(arrays.is_elsewhere, state.z.values())):
        return None
    return noise.doubt(problem.coupling, state.z, max(part.roundoff() for part in parts))


def fallen(state: State) -> str:
    """What to add to a sentence on what is not finite, where ``Psi`` had fallen very far before."""
    if state.value >= -DEEP * max(1.0, abs(state.start_value)):
        return ""
    return f"; the objective had fallen to {state.value:.3g}, it may not be bounded below"


def rests(state: State) -> list[str]:
    """A sentence for each block that never moved, though nothing was wrong with its steps."""
    said = []
    for block in state.z:
        visits = [visit for visit in state.visits if visit.block == block]
        moves = [visit.move for visit in visits]
        if len(moves) > 1 and not any(moves) and not any(visit.fault for visit in visits):
            said.append(
                f"block {block!r} never moved in {len(moves)} visits; its start may be a critical point of its "
                "sub-problem, such as zero"
            )
    return said
