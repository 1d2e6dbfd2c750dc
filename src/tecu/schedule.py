"""In which order the blocks are visited.

A schedule is a function of the sweep's number and a random generator that depends only on the seed and that number:
a resumed run repeats it without any state of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

Schedule: TypeAlias = str | Sequence[str] | Callable[..., Sequence[str]]
Order: TypeAlias = Callable[[int], list[str]]
ALLOWED = "'cyclic', 'shuffled', a list of blocks or a function"


def largest_gap_allowed(blocks: int) -> int:
    """Sweeps a block may rest under a user's function before the theorem no longer covers the run.

    A sweep may be a visit to one block: then each comes once in as many sweeps as there are blocks.
    """
    return max(10, 2 * blocks)


def make_order(schedule: Schedule, blocks: Sequence[str], seed: int) -> Order:
    """The blocks of sweep ``t = 1, 2, ...`` as a function of ``t``.

    ``"cyclic"`` is the order of the terms, ``"shuffled"`` a random order each sweep, a list may name blocks several
    times, and a function ``f(t)`` or ``f(t, rng)`` returns a list.
    """
    if isinstance(schedule, str):
        if schedule == "cyclic":
            return lambda t: list(blocks)
        if schedule == "shuffled":
            return lambda t: [blocks[i] for i in np.random.default_rng((seed, 1, t)).permutation(len(blocks))]
        raise ValueError(f"schedule must be {ALLOWED}, got {schedule!r}")
    if callable(schedule):
        return _from_function(schedule, blocks, seed)
    if not isinstance(schedule, Sequence | np.ndarray):
        raise TypeError(f"schedule must be {ALLOWED}, got {schedule!r}")
    order = _checked_names(schedule, blocks)
    resting = [block for block in blocks if block not in order]
    if resting:
        raise ValueError(f"schedule {order} never visits block {resting[0]!r}; every block must come at least once")
    return lambda t: list(order)


def _from_function(function: Callable[..., Sequence[str]], blocks: Sequence[str], seed: int) -> Order:
    takes_rng = _takes_rng(function)

    def order(t: int) -> list[str]:
        arguments: tuple[Any, ...] = (t, np.random.default_rng((seed, 1, t))) if takes_rng else (t,)
        names = function(*arguments)
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise TypeError(f"the schedule's function must return a list of blocks, got {names!r} for sweep {t}")
        return _checked_names(names, blocks)

    return order


def _takes_rng(function: Callable[..., Any]) -> bool:
    """Whether the function is one of ``t`` and a generator; refused if it can be called with neither one nor both."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in one does not say
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p for p in signature.parameters.values() if p.kind in kinds]
    # ``lambda t, order=order: ...`` is how a function keeps something: what has a default is no place for a generator.
    both = len(named) >= 2 and (named[1].default is inspect.Parameter.empty or named[1].name == "rng")
    try:
        signature.bind(*(1, 2) if both else (1,))
    except TypeError:
        raise TypeError(f"the schedule's function must take t, or t and rng; it takes {signature}") from None
    return both


def _checked_names(names: Iterable[str], blocks: Sequence[str]) -> list[str]:
    """The problem's own names of the blocks: NumPy's random choices are strings of another class."""
    own, names = {block: block for block in blocks}, list(names)
    if not names:
        raise ValueError(f"the schedule gave an empty sweep; it must name some of {list(blocks)}")
    for name in names:
        if name not in blocks:
            raise ValueError(f"the schedule names block {name!r}, but the problem has {list(blocks)}")
    return [own[name] for name in names]
