"""The sub-problem of one block: what an update and a strategy see of the problem."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.backtracking import backtrack, seen_curvature
from tecu.in_place import gradient_step, plus_scaled
from tecu.protocols import Blocks, Memory, ProxStep, Restricted, entrywise_of, treats_entries_alike
from tecu.visited import NOTES, Visited, divided

if TYPE_CHECKING:
    from tecu.problem import Problem

LONGER = (1 / 2, 1 / 16, 1 / 256)  # of a tau: steps over which curvature is looked for, the shortest first
WELL_WITHIN = 16.0  # how far below its bound a tau needs no second look


@dataclass(frozen=True)
class SubProblem(Visited):
    """``min over u of F(u) = term(u) + phi(u)``, with ``phi(u) = H(u, others) + eta/2 ||u - previous||^2``.

    What a strategy may use: ``value``, ``grad``, ``hessian`` and ``lipschitz`` of ``phi``, ``prox`` of the term, the
    point ``previous`` that the block comes from, and ``memory`` for what must survive the visit. Arrays in the memory
    are replaced, never changed in place: earlier states share them.
    """

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

    def with_eta(self, eta: float) -> SubProblem:
        """The same block with another proximal weight; counters, memory and cached work are shared."""
        return replace(self, eta=eta)

    # -- F = term + phi -----------------------------------------------------------------------------------------

    def value(self, u: Array) -> float:
        """``F(u)``."""
        return float(self.term.value(u)) + self.smooth_value(u)

    def smooth_value(self, u: Array) -> float:
        """``phi(u)``."""
        return self.coupling_value(u) + self.proximal_value(u)

    def proximal_value(self, u: Array) -> float:
        """``eta/2 ||u - previous||^2``."""
        distance = arrays.distance(u, self.previous) if self.eta else 0.0
        return 0.5 * self.eta * distance * distance

    def grad(self, u: Array) -> Array:
        """The gradient of ``phi``."""
        gradient = self.coupling_grad(u)
        return gradient if u is self.previous or not self.eta else gradient + self.eta * (u - self.previous)

    def for_foreigners(self) -> SubProblem:
        """The same for a strategy that is not our own and may write into what it is given: with copies."""
        return replace(self, previous=arrays.copy(self.previous), original=self.previous)

    def hessian(self, v: Array) -> Array | None:
        """The second derivative of ``phi`` applied to ``v``, a new array; ``None`` where ``H`` is not quadratic."""
        product = self.coupling_hessian(v)
        return plus_scaled(product, self.eta, v) if product is not None and self.eta else product

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
        if "complex" in str(getattr(point, "dtype", "")):
            raise TypeError(
                f"block {self.block!r}: {said} complex numbers, the block has real ones; take the real part"
            )
        if isinstance(point, np.ma.MaskedArray):
            raise TypeError(f"block {self.block!r}: {said} a masked array; use .filled() to give all of its entries")
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
        point, value = both(gradient_step(u, gradient, tau), 1.0 / tau)
        return self.as_block(point, f"the prox_and_value of {self.term!r}"), float(value)

    def _prox_of_step(self, u: Array, gradient: Array, tau: float) -> Array:
        """The same point, in one pass over the memory where the term treats each entry by itself."""
        if not self._goes_in_pieces(u, gradient):
            return self.prox(gradient_step(u, gradient, tau), 1.0 / tau)
        self.counters.proxes += 1
        point = np.empty_like(u)
        for there, here, slope in arrays.pieces(point, u, gradient):
            there[...] = self.term.prox(gradient_step(here, slope, tau), 1.0 / tau)
        return point

    def step_with_difference(self, u: Array, gradient: Array, tau: float | None) -> tuple[Array, Array, float]:
        """``u~`` and ``tau`` of :meth:`prox_gradient_step`, and ``u - u~``, a new array, in the same pass."""
        tau = self.tau_of_step() if tau is None else tau
        if tau is None:
            point, tau = self.prox_gradient_step(u, gradient)
            return point, u - point, tau
        if not self._goes_in_pieces(u, gradient):
            point = self.prox(gradient_step(u, gradient, tau), 1.0 / tau)
            return point, u - point, tau
        self.counters.proxes += 1
        point, difference = np.empty_like(u), np.empty_like(u)
        for there, apart, here, slope in arrays.pieces(point, difference, u, gradient):
            there[...] = self.term.prox(gradient_step(here, slope, tau), 1.0 / tau)
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

    @property
    def is_free(self) -> bool:
        """Whether the term says that it is finite everywhere: no set holds the block, whatever its unit."""
        if "free" not in self._cache:
            entry = entrywise_of(self.term)
            bounds = () if entry is None or not self.treats_entries_alike else (entry.lower, entry.upper)
            self._cache["free"] = bounds == (-math.inf, math.inf)
        return bool(self._cache["free"])

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

    def trusts(self, tau: float, afresh: bool = False) -> bool:
        """Whether an error computed with ``tau`` means anything: ``0 < tau <= r^(-1/3) (curvature of phi)``.

        ``e`` holds ``tau (u - u~)``, whose rounding is ``tau r ||u||``: with ``tau`` large enough the step is lost in
        it and every point looks stationary. A ``tau`` that does not follow the curvature is to be looked at ``afresh``.
        """
        known = None if afresh else self.notes.get("measured_curvature")  # of an earlier visit: it may be less by now
        if known is not None and 0.0 < tau <= self._room / WELL_WITHIN * (float(known) + self.eta):
            return True
        return 0.0 < tau <= self.largest_tau() or (0.0 < tau < math.inf and self._bends_within_reach(tau))

    @np.errstate(over="ignore", invalid="ignore")  # far away H may leave the range
    def _bends_within_reach(self, tau: float) -> bool:
        """Whether ``H``, next to flat at ``previous``, bends enough for ``tau`` over steps that are somewhat longer.

        ``||grad H(v) - grad H(previous)|| / ||v - previous||``, ``v`` the prox-gradient step with a share of ``tau``.
        """
        if self.lipschitz() is not None:
            return False
        gradient = self.coupling_at_previous()[1]
        for share in LONGER:
            v = self._prox_of_step(self.previous, gradient, share * tau)
            length = arrays.distance(v, self.previous)
            if not 0.0 < length < math.inf:
                continue
            try:
                seen = arrays.distance(self.coupling_grad(v), gradient) / length
            except Exception:  # a user's function may refuse points that are far away
                break
            if seen < math.inf and tau <= self._room * (seen + self.eta):
                self._cache["measured"] = self.notes["measured_curvature"] = seen
                return True
        return False

    def largest_tau(self) -> float:
        """The largest ``tau`` that :meth:`trusts` allows."""
        return self._room * (self.measure_curvature() or 1.0)

    @property
    def _room(self) -> float:
        return math.pow(self.roundoff, -1.0 / 3.0)

    def prox_gradient_step(
        self, u: Array, gradient: Array | None = None, tau: float | None = None
    ) -> tuple[Array, float]:
        """``u~ = prox(u - grad phi(u) / tau)`` and the ``tau`` it took.

        Without ``tau``: the Lipschitz constant where the coupling offers one, otherwise back-tracking until ``phi``
        lies below its quadratic model on the step.
        """
        return self.step_with_coupling(u, self.grad(u) if gradient is None else gradient, tau)[:2]

    def step_with_coupling(
        self, u: Array, gradient: Array, tau: float | None = None
    ) -> tuple[Array, float, float | None]:
        """The same, and ``H(u~)`` where back-tracking had to know it."""
        tau = self.tau_of_step() if tau is None else tau
        if tau is None:
            point, tau, _, coupling = backtrack(self, u, gradient)
            return point, tau, coupling
        return self._prox_of_step(u, gradient, tau), tau, None

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
        return 8.0 * self.roundoff * (tau * self.size_of_previous() + self.known_slope())
