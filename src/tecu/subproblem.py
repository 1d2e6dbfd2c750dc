"""The sub-problem of one block: what an update and a strategy see of the problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.backtracking import backtrack, seen_curvature
from tecu.protocols import Blocks, Memory, ProxStep, Restricted, Term, treats_entries_alike

if TYPE_CHECKING:
    from tecu.problem import Problem

NOTES = "engine"  # where the memory of a block, as states keep it, has the solver's own notes
WELL_WITHIN = 16.0  # how far below its bound a tau needs no second look


@dataclass
class Counters:
    """What a visit spent."""

    values: int = 0
    gradients: int = 0
    hessians: int = 0
    proxes: int = 0
    strategy_calls: int = 0


@dataclass(frozen=True)
class SubProblem:
    """``min over u of F(u) = term(u) + phi(u)``, with ``phi(u) = H(u, others) + eta/2 ||u - previous||^2``.

    What a strategy may use: ``value``, ``grad``, ``hessian`` and ``lipschitz`` of ``phi``, ``prox`` of the term, the
    point ``previous`` that the block comes from, and ``memory`` for what must survive the visit. Arrays in the memory
    are replaced, never changed in place: earlier states share them.
    """

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
    lyapunov_weight: float = 0.0  # the weight of that move in the Lyapunov function
    previous_term: float = math.nan  # term(previous), where it is already known
    previous_size: float = math.nan  # ||previous||, likewise
    previous_coupling: float | None = None  # H at previous, likewise
    seed: tuple[int, ...] = (0,)
    counters: Counters = field(default_factory=Counters)
    notes: Memory = field(default_factory=dict, repr=False)  # what the solver and the coupling keep: not for strategies
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)  # shared by copies with another eta

    @classmethod
    def of(cls, problem: Problem, block: str, z: Blocks, eta: float = 0.0, memory: Memory | None = None) -> SubProblem:
        """The sub-problem of ``block`` at ``z``, for trying a strategy by hand.

        >>> import numpy as np, tecu
        >>> from tecu import couplings, terms
        >>> H = couplings.MatrixFactorization(np.eye(2), codes="W", dictionary="D")
        >>> problem = tecu.Problem(H, {"W": terms.L1(0.1), "D": terms.UnitColumns()})
        >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 1)), "D": np.array([[1.0], [0.0]])}, eta=1.0)
        >>> sub.grad(sub.previous).ravel().tolist()
        [-1.0, 0.0]
        """
        if block not in problem.terms:
            raise ValueError(f"the problem has no block {block!r}; it has {list(problem.blocks)}")
        memory = {} if memory is None else memory
        own, notes = divided(memory) if NOTES in memory else (memory, {})
        return cls(
            block, problem.terms[block], problem.restrict(block, z), z[block], eta, own, dict(z), notes=notes
        )  # fmt: skip

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

    def with_eta(self, eta: float) -> SubProblem:
        """The same block with another proximal weight; counters, memory and cached work are shared."""
        return replace(self, eta=eta)

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
            self.counters.values += 1
            self.counters.gradients += 1
            self._cache["start"] = self.smooth.value_and_grad(self.previous)
        start: tuple[float, Array] = self._cache["start"]
        return start

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
        if u is self.previous:
            return True
        lent = self._cache.get("lent")
        return lent is not None and u is lent and np.array_equal(lent, self.previous)

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

    # -- F = term + phi -----------------------------------------------------------------------------------------

    def value(self, u: Array) -> float:
        """``F(u)``."""
        return float(self.term.value(u)) + self.smooth_value(u)

    def smooth_value(self, u: Array) -> float:
        """``phi(u)``."""
        distance = arrays.distance(u, self.previous) if self.eta else 0.0
        return self.coupling_value(u) + 0.5 * self.eta * distance * distance

    def grad(self, u: Array) -> Array:
        """The gradient of ``phi``."""
        gradient = self.coupling_grad(u)
        return gradient if u is self.previous or not self.eta else gradient + self.eta * (u - self.previous)

    def hessian(self, v: Array) -> Array | None:
        """The second derivative of ``phi`` applied to ``v``, a new array; ``None`` where ``H`` is not quadratic."""
        product = self.coupling_hessian(v)
        return arrays.plus_scaled(product, self.eta, v) if product is not None and self.eta else product

    def coupling_hessian(self, v: Array) -> Array | None:
        """The second derivative of ``H(., others)`` applied to ``v``, a new array; ``None`` if it is not quadratic."""
        if not self.is_quadratic:
            return None
        self.counters.hessians += 1
        if arrays.is_torch(v):  # which multiplies no arrays of two precisions
            v = arrays.as_kind(v, self.previous)
        product = self.smooth.hessian(v)
        # a user's own may be v itself, or an array that is kept
        return arrays.copy(product) if product is v or type(self.smooth).hessian is Restricted.hessian else product

    @property
    def is_quadratic(self) -> bool:
        """Whether ``H`` is known to be quadratic in this block."""
        if "quadratic" not in self._cache:
            self._cache["quadratic"] = self.smooth.is_quadratic()
        return bool(self._cache["quadratic"])

    def prox(self, x: Array, step: float) -> Array:
        """``prox`` of the term, in the block's own kind and precision."""
        self.counters.proxes += 1
        return self.as_block(self.term.prox(x, step), f"the prox of {self.term!r}")

    def as_block(self, point: Array, source: str) -> Array:
        """``point`` in the block's own kind and precision; refused if its shape does not fit."""
        self.require_shape(point, f"{source} returned")
        return arrays.as_kind(point, self.previous)

    def require_shape(self, point: Array, said: str) -> None:
        """Refuse what has another shape than the block, with a sentence that begins with what was ``said``."""
        if tuple(getattr(point, "shape", ())) != tuple(self.previous.shape):
            raise ValueError(
                f"block {self.block!r}: {said} {getattr(point, 'shape', type(point).__name__)}, "
                f"the block has shape {tuple(self.previous.shape)}"
            )

    def forward_backward(self, u: Array, gradient: Array, tau: float) -> tuple[Array, float]:
        """``u~ = prox(u - gradient / tau, 1 / tau)`` and the term's value there."""
        both = getattr(self.term, "prox_and_value", None)
        if both is None:
            point = self._prox_of_step(u, gradient, tau)
            return point, float(self.term.value(point))
        self.counters.proxes += 1
        point, value = both(arrays.gradient_step(u, gradient, tau), 1.0 / tau)
        return arrays.as_kind(point, self.previous), float(value)

    def _prox_of_step(self, u: Array, gradient: Array, tau: float) -> Array:
        """The same point, in one pass over the memory where the term treats each entry by itself."""
        if not self._goes_in_pieces(u, gradient):
            return self.prox(arrays.gradient_step(u, gradient, tau), 1.0 / tau)
        self.counters.proxes += 1
        point = np.empty_like(u)
        for there, here, slope in arrays.pieces(point, u, gradient):
            there[...] = self.term.prox(arrays.gradient_step(here, slope, tau), 1.0 / tau)
        return point

    def step_with_difference(self, u: Array, gradient: Array, tau: float | None) -> tuple[Array, Array, float]:
        """``u~`` and ``tau`` of :meth:`prox_gradient_step`, and ``u - u~``, a new array, in the same pass."""
        tau = self.tau_of_step() if tau is None else tau
        if tau is None:
            point, tau = self.prox_gradient_step(u, gradient)
            return point, u - point, tau
        if not self._goes_in_pieces(u, gradient):
            point = self.prox(arrays.gradient_step(u, gradient, tau), 1.0 / tau)
            return point, u - point, tau
        self.counters.proxes += 1
        point, difference = np.empty_like(u), np.empty_like(u)
        for there, apart, here, slope in arrays.pieces(point, difference, u, gradient):
            there[...] = self.term.prox(arrays.gradient_step(here, slope, tau), 1.0 / tau)
            np.subtract(here, there, out=apart)
        return point, difference, tau

    def _goes_in_pieces(self, u: Array, gradient: Array) -> bool:
        """Whether a prox-gradient step may be made on some entries at a time: NumPy arrays, each entry by itself."""
        plain = all(type(x) is np.ndarray and x.flags.c_contiguous and x.dtype == u.dtype for x in (u, gradient))
        return plain and u.shape == gradient.shape and self.treats_entries_alike

    @property
    def treats_entries_alike(self) -> bool:
        """Whether the term is a sum of one function over all entries."""
        if "alike" not in self._cache:
            self._cache["alike"] = treats_entries_alike(self.term)
        return bool(self._cache["alike"])

    def own_prox_linear(self, gamma: float) -> ProxStep | None:
        """The coupling's own prox-linear step of ``term + H`` from ``previous``, where it has one."""
        step = self.smooth.prox_linear(self.term, gamma)
        if step is None:
            return None
        self.counters.gradients += 1
        self.counters.proxes += 1
        return step._replace(u=arrays.as_kind(step.u, self.previous))

    def lipschitz(self) -> float | None:
        """A Lipschitz constant of ``grad phi``: that of ``grad H`` plus ``eta``; ``None`` if the coupling has none."""
        if "lipschitz" not in self._cache:
            found = self.smooth.lipschitz(self.coupling_memory)
            if found is not None and not 0.0 <= found < math.inf:
                raise ValueError(
                    f"block {self.block!r}: the Lipschitz constant must be a finite number >= 0, got {found!r}"
                )
            self._cache["lipschitz"] = found
        constant: float | None = self._cache["lipschitz"]
        return None if constant is None else constant + self.eta

    # -- how large tau may be ------------------------------------------------------------------------------------

    def measure_curvature(self) -> float:
        """The curvature of ``phi`` that no strategy has a say in: the coupling's constant, or what its gradients show.

        Remembered from visit to visit, as the yardstick of :meth:`trusts`.
        """
        if "measured" not in self._cache:
            constant = self.lipschitz()
            measured = seen_curvature(self) if constant is None else constant - self.eta
            self._cache["measured"] = self.notes["measured_curvature"] = measured
        return float(self._cache["measured"]) + self.eta

    def trusts(self, tau: float) -> bool:
        """Whether an error computed with ``tau`` means anything: ``0 < tau <= r^(-1/3) (curvature of phi)``.

        ``e`` holds ``tau (u - u~)``, whose rounding is ``tau r ||u||``: with ``tau`` large enough the step is lost in
        it and every point looks stationary.
        """
        known = self.notes.get("measured_curvature")  # of an earlier visit: it may be less by now
        if known is not None and 0.0 < tau <= self._room / WELL_WITHIN * (float(known) + self.eta):
            return True
        return 0.0 < tau <= self.largest_tau()

    def largest_tau(self) -> float:
        """The largest ``tau`` that :meth:`trusts` allows."""
        return self._room * (self.measure_curvature() or 1.0)

    @property
    def _room(self) -> float:
        return math.pow(arrays.unit_roundoff(self.previous), -1.0 / 3.0)

    def prox_gradient_step(
        self, u: Array, gradient: Array | None = None, tau: float | None = None
    ) -> tuple[Array, float]:
        """``u~ = prox(u - grad phi(u) / tau)`` and the ``tau`` it took.

        Without ``tau``: the Lipschitz constant where the coupling offers one, otherwise back-tracking until ``phi``
        lies below its quadratic model on the step.
        """
        if gradient is None:
            gradient = self.grad(u)
        tau = self.tau_of_step() if tau is None else tau
        if tau is None:
            return backtrack(self, u, gradient)[:2]
        return self._prox_of_step(u, gradient, tau), tau

    def tau_of_step(self) -> float | None:
        """The Lipschitz constant of ``grad phi``; 1 where it is 0 and any step will do; ``None`` if not known."""
        constant = self.lipschitz()
        return 1.0 if constant is not None and constant < arrays.least_divisor(self.previous) else constant

    def rounding(self, tau: float) -> float:
        """``8 r (tau ||previous|| + ||grad phi(previous)||)``, ``r`` the unit round-off: less means nothing.

        A ``tau`` beyond what :meth:`trusts` allows does not make it larger.
        """
        if "measured_curvature" in self.notes:
            tau = min(tau, self._room * ((float(self.notes["measured_curvature"]) + self.eta) or 1.0))
        return 8.0 * arrays.unit_roundoff(self.previous) * (tau * self.size_of_previous() + self.known_slope())

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

    def value_slack(self, *values: float) -> float:
        """How far values of ``H`` that should be equal may differ: ``8 sqrt(terms summed)`` units in the last place.

        A user's own ``H`` may sum more terms than the block has entries: then 8 deviations of the noise that was seen.
        """
        largest = max((self.smooth.magnitude(v) for v in values), default=0.0)
        said = math.sqrt(math.prod(self.previous.shape)) * arrays.unit_roundoff(self.previous) * largest
        return 8.0 * max(said, float(self.notes.get("noise", 0.0)))


def divided(memory: Mapping[str, Any]) -> tuple[Memory, Memory]:
    """What a state keeps of a block: the memory of its strategy, and the solver's notes."""
    return {name: value for name, value in memory.items() if name != NOTES}, dict(memory.get(NOTES, {}))
