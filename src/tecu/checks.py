"""What is looked at when a run begins, goes on and ends: whether the problem is the one that it was, who is audited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import Problem
from tecu.state import ForeignState, Outcome, State

AUDIT_EVERY = 25  # one visit in this many, at a random place: 4 %


def audit_due(seed: int, index: int) -> bool:
    """Whether visit ``index`` is one of the random ones to audit; a function of the seed alone, so that runs repeat."""
    group, place = divmod(index, AUDIT_EVERY)
    return _audited_place(seed, group) == place


@lru_cache(maxsize=64)
def _audited_place(seed: int, group: int) -> int:
    return int(np.random.default_rng((seed, 3, group)).integers(AUDIT_EVERY))


def require_value(problem: Problem, state: State) -> None:
    """Refuse to go on from a state whose objective is not what it was: its fingerprint does not see into functions."""
    value = other_value(problem, state)
    if value is not None:
        raise ForeignState(
            f"this state had the objective {state.value:.6g}, and this problem says {value:.6g}: it belongs to "
            "another problem; start anew from state.z"
        )


def other_value(problem: Problem, state: State) -> float | None:
    """The objective at the blocks of a state, if that is not what the state says, up to rounding; else ``None``."""
    z, value = state.z, problem.value(state.z)
    restricted = problem.restrict(problem.blocks[0], z)
    r = max(restricted.roundoff(), *(arrays.unit_roundoff(x) for x in z.values()))
    entries = max(math.prod(x.shape) for x in z.values())
    magnitude = restricted.magnitude(value)
    same = abs(value - state.value) <= math.sqrt(r) * abs(value) + 64 * r * math.sqrt(entries) * magnitude
    return None if same else value


def stands_still(state: State) -> bool:
    """Whether each block has been visited since one of them moved last, and stayed: with the others, all of it does."""
    waiting = set(state.z)
    for visit in reversed(state.visits):
        # An extrapolated step that led back to where it began, from a bound, says nothing of the plain one to follow.
        led_back = visit.outcome is Outcome.EXTRAPOLATED and visit.previous_move > 0.0
        if visit.move > 0.0 or led_back or not waiting:
            break
        waiting.discard(visit.block)
    return not waiting


def no_room(block: str, value: float, place: str) -> str:
    """What to say of a term that is not finite where it should be."""
    return (
        f"the term of block {block!r} is {value} at {place}; a prox has to lead into the domain of its term, and the "
        "value of a set to leave room for rounding, 32 sqrt(entries) units in the last place"
    )


def is_only_ours(problem: Problem, z: Mapping[str, Array]) -> bool:
    """Whether coupling and terms are those of this library, which stay as they are."""
    own_terms = all(type(term).__module__.startswith("tecu.") for term in problem.terms.values())
    return own_terms and not any(problem.restrict(block, z).rounds_unsaid() for block in z)
