"""Where a visit begins: the blocks as they are, what is known of them there, and what the solver has noted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.protocols import Blocks, Memory, Restricted, Term

NOTES = "engine"  # where the memory of a block, as states keep it, has the solver's own notes


@dataclass
class Counters:
    """What a visit spent."""

    values: int = 0
    gradients: int = 0
    hessians: int = 0
    proxes: int = 0
    strategy_calls: int = 0


@dataclass(frozen=True)
class Visited:
    """One block and the point ``previous`` that it comes from, with ``H`` and its gradient there, computed once."""

    block: str
    term: Term
    smooth: Restricted  # H(., others)
    previous: Array
    eta: float
    memory: Memory
    others: Blocks  # all blocks, this one at ``previous``
    visits: int = 0  # how often the block was visited before
    previous_move: float | None = None  # ||move|| at its previous visit
    before: Array | None = None  # its value before that visit
    original: Array | None = None  # the block's own array, where ``previous`` is a copy of it for a foreign strategy
    lyapunov_weight: float = 0.0  # the weight of that move in the Lyapunov function
    previous_term: float = math.nan  # term(previous), where it is already known
    previous_size: float = math.nan  # ||previous||, likewise
    previous_coupling: float | None = None  # H at previous, likewise
    seed: tuple[int, ...] = (0,)
    counters: Counters = field(default_factory=Counters)
    notes: Memory = field(default_factory=dict, repr=False)  # what the solver and the coupling keep: not for strategies
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)  # shared by copies with another eta

    @property
    def kept(self) -> Memory:
        """The memory as states keep it, with the solver's notes."""
        if NOTES in self.memory:
            raise ValueError(f"block {self.block!r}: sub.memory[{NOTES!r}] belongs to the solver; take another name")
        return {**self.memory, NOTES: self.notes} if self.notes else self.memory

    @property
    def coupling_memory(self) -> Memory:
        """The part of the notes that belongs to the coupling: vectors of power iterations, products that it counts."""
        if "coupling_memory" not in self._cache:
            self._cache["coupling_memory"] = self.notes["coupling"] = dict(self.notes.get("coupling", {}))
        own: Memory = self._cache["coupling_memory"]
        return own

    @property
    def rng(self) -> np.random.Generator:
        """A random generator that depends only on the run's seed and the visit, so that a resumed run repeats it."""
        if "rng" not in self._cache:
            self._cache["rng"] = np.random.default_rng(self.seed)
        generator: np.random.Generator = self._cache["rng"]
        return generator

    # -- H at the point the block comes from: computed once a visit --------------------------------------------

    def coupling_at_previous(self) -> tuple[float, Array]:
        """``H`` and its gradient at ``previous``."""
        if "start" not in self._cache:
            self.counters.gradients += 1
            known, own = self.previous_coupling, self.previous if self.original is None else self.original
            if known is None or type(self.smooth).value_and_grad is not Restricted.value_and_grad:
                self.counters.values += 1
                self._cache["start"] = self.smooth.value_and_grad(own)
            else:  # nothing is shared: the value would be computed once more
                self._cache["start"] = known, self.smooth.grad(own)
        start: tuple[float, Array] = self._cache["start"]
        return start if self.original is None else (start[0], arrays.copy(start[1]))

    def coupling_value_at_previous(self) -> float:
        """``H`` at ``previous``, without a gradient that nobody asked for."""
        if "start" in self._cache:
            return float(self._cache["start"][0])
        if self.previous_coupling is not None:
            return self.previous_coupling
        if "start_value" not in self._cache:
            self.counters.values += 1
            self._cache["start_value"] = self.smooth.value(self.previous)
        return float(self._cache["start_value"])

    def term_at_previous(self) -> float:
        """``term(previous)``."""
        if not math.isnan(self.previous_term):
            return self.previous_term
        if "term" not in self._cache:
            self._cache["term"] = float(self.term.value(self.previous))
        return float(self._cache["term"])

    def lend(self, u: Array) -> Array:
        """A copy of ``u`` for somebody who may change it; as long as it is not changed, what is known of it counts."""
        copied = arrays.copy(u)
        if u is self.previous:
            self._cache["lent"] = copied
        return copied

    def _is_previous(self, u: Array) -> bool:
        own = self.previous if self.original is None else self.original
        is_copy = u is self.previous or u is self._cache.get("lent", own)
        return u is own or (is_copy and arrays.equal(u, own))

    def coupling_value(self, u: Array) -> float:
        """``H(u, others)``."""
        if self._is_previous(u):
            return self.coupling_value_at_previous()
        self.counters.values += 1
        return float(self.smooth.value(u))

    def settle(self, u: Array) -> float:
        """``H(u, others)`` at the block's new value, when its visit is over."""
        return self.coupling_value_at_previous() if u is self.previous else float(self.smooth.settle(u))

    def coupling_grad(self, u: Array) -> Array:
        """The gradient of ``H(., others)``."""
        if self._is_previous(u):
            return self.coupling_at_previous()[1]
        self.counters.gradients += 1
        return self.smooth.grad(u)

    # -- how large things are, and how far rounding goes -----------------------------------------------------------

    def known_start(self) -> Array | None:
        """``grad H(previous)``, if somebody has asked for it."""
        start = self._cache.get("start")
        return None if start is None else start[1]

    def known_slope(self) -> float:
        """``||grad H(previous)||``, or 0 as long as nobody has asked for that gradient."""
        if "slope" not in self._cache:
            start = self.known_start()
            if start is None:
                return 0.0
            self._cache["slope"] = arrays.norm(start)
        return float(self._cache["slope"])

    def size_of_previous(self) -> float:
        """``||previous||``."""
        if not math.isnan(self.previous_size):
            return self.previous_size
        if "size" not in self._cache:
            self._cache["size"] = arrays.norm(self.previous)
        return float(self._cache["size"])

    @property
    def roundoff(self) -> float:
        """The unit round-off of ``H`` and its gradient."""
        if "roundoff" not in self._cache:
            self._cache["roundoff"] = self.smooth.roundoff()
        return float(self._cache["roundoff"])

    def value_slack(self, *values: float) -> float:
        """How far values of ``H`` that should be equal may differ: ``8 sqrt(terms summed)`` units in the last place.

        A user's own ``H`` may sum more terms than the block has entries: then 8 deviations of the noise that was seen.
        """
        largest = max((self.smooth.magnitude(v) for v in values), default=0.0)
        said = math.sqrt(math.prod(self.previous.shape)) * self.roundoff * largest
        return 8.0 * max(said, float(self.notes.get("noise", 0.0)))


def divided(memory: Mapping[str, Any]) -> tuple[Memory, Memory]:
    """What a state keeps of a block: the memory of its strategy, and the solver's notes."""
    return {name: value for name, value in memory.items() if name != NOTES}, dict(memory.get(NOTES, {}))
