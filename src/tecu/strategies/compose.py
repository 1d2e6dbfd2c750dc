"""Making strategies out of functions and other strategies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, cast

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.problem import SubProblem
from tecu.protocols import Strategy
from tecu.settings import is_whole
from tecu.strategies.network import adapted


class Once:
    """A plain function ``u -> u`` (a network, a denoiser) as a strategy: it proposes once."""

    endless = False

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function = function

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield ``function(u)``, of a copy: a function may work in place."""
        yield self.function(arrays.copy(u))

    def __repr__(self) -> str:
        return f"Once({_name(self.function)})"


def begun(strategy: Strategy, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
    """The proposals of a strategy from ``u``. One that is not our own may work in place: it gets and gives copies."""
    if type(strategy).__module__.partition(".")[0] == "tecu":
        yield from strategy(sub, u)
        return
    proposals = strategy(sub.for_foreigners(), sub.lend(u))
    if hasattr(proposals, "shape") or not isinstance(proposals, Iterable):  # the rows of an array are no proposals
        raise TypeError(
            f"block {sub.block!r}: the strategy {_name(strategy)} must yield its proposals, it returned a "
            f"{type(proposals).__name__}; write yield in place of return, or give a function of u alone"
        )
    for proposal in proposals:
        yield proposal.copy() if isinstance(proposal, np.ndarray) else proposal


class steps:
    """The first ``count`` proposals of a strategy, so that another may follow it.

    >>> from tecu import strategies
    >>> strategies.steps(strategies.FISTA(), 5)
    steps(FISTA(), 5)
    """

    endless = False

    def __init__(self, strategy: Any, count: int) -> None:
        if not (is_whole(count) and count >= 1):
            raise ValueError(f"steps needs a whole count >= 1, got {count!r}")
        self.strategy, self.count = as_strategy(strategy), count

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield the first ``count`` proposals."""
        yield from islice(begun(self.strategy, sub, u), self.count)

    def __repr__(self) -> str:
        return f"steps({self.strategy!r}, {self.count})"


class first_visit:
    """A strategy that runs only at a block's first visit, such as a network that would throw later progress away."""

    endless = False

    def __init__(self, strategy: Any) -> None:
        self.strategy = as_strategy(strategy)
        if getattr(self.strategy, "endless", True):
            raise ValueError(f"first_visit: {self.strategy!r} is endless; bound it with strategies.steps(strategy, n)")

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield the strategy's proposals at the first visit, nothing later."""
        if sub.visits == 0:
            yield from begun(self.strategy, sub, u)

    def __repr__(self) -> str:
        return f"first_visit({self.strategy!r})"


def as_strategy(given: Any) -> Strategy:
    """``given`` itself if it is a strategy, or a plain function ``u -> u`` wrapped as one.

    A strategy is a generator function of ``(sub, u)``, an object whose ``__call__`` is one, anything whose first
    argument is named ``sub``, or anything that says whether it is ``endless``. A generator function that ends by
    itself says so after its definition: ``function.endless = False``.
    """
    if not callable(given):
        raise TypeError(
            f"a strategy must be callable, got {given!r}; a strategy class needs its brackets, as in FISTA()"
        )
    if inspect.isclass(given):
        raise TypeError(f"{given.__name__} is a class; give an instance, {given.__name__}()")
    if (
        hasattr(given, "endless")
        or inspect.isgeneratorfunction(given)
        or inspect.isgeneratorfunction(type(given).__call__)
        or _takes_sub_problem(given)
    ):
        return cast(Strategy, given)
    return Once(adapted(given))


def _takes_sub_problem(given: Any) -> bool:
    """Whether its first argument is named ``sub``: it may return a generator instead of being one."""
    try:
        return next(iter(inspect.signature(given).parameters), "") == "sub"
    except (TypeError, ValueError):  # some callables of compiled packages have no signature
        return False


def _name(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__
