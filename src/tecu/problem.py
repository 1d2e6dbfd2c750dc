"""A problem, ``min Psi(z) = sum_b term_b(z_b) + H(z)``, and the sub-problem of one block."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.backtracking import backtrack
from tecu.protocols import Blocks, Coupling, Memory, Restricted, Term


@dataclass(frozen=True)
class Problem:
    r"""``min over z = (z_1 .. z_N) of Psi(z) = sum_b term_b(z_b) + H(z)``.

    Parameters
    ----------
    coupling
        The smooth function ``H``, a :class:`~tecu.protocols.Coupling`.
    terms
        One :class:`~tecu.protocols.Term` a block. The order is the order of a cyclic sweep.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, terms
    >>> Y = np.arange(6.0).reshape(2, 3)
    >>> problem = tecu.Problem(couplings.MatrixFactorization(Y, codes="W", dictionary="D"),
    ...                        {"W": terms.L0(0.02), "D": terms.UnitColumns()})
    >>> float(problem.value({"W": np.zeros((3, 1)), "D": np.array([[1.0], [0.0]])}))
    27.5
    """

    coupling: Coupling
    terms: Mapping[str, Term]

    def __post_init__(self) -> None:
        if not isinstance(self.terms, Mapping) or not self.terms:
            raise TypeError(f"terms must be a non-empty dict of block name to term, got {self.terms!r}")
        for name in ("value", "grad"):
            if not callable(getattr(self.coupling, name, None)):
                raise TypeError(
                    f"coupling {self.coupling!r} has no method {name!r}; a coupling needs value(z) and grad(block, z)"
                )
        for block, term in self.terms.items():
            missing = [name for name in ("value", "prox", "is_convex") if not hasattr(term, name)]
            if missing:
                raise TypeError(
                    f"block {block!r}: term {term!r} lacks {', '.join(missing)}; a term needs value, prox and is_convex"
                )
        unknown = [name for name in getattr(self.coupling, "blocks", ()) if name not in self.terms]
        if unknown:
            raise ValueError(
                f"the coupling uses block {unknown[0]!r}, but terms has only {list(self.terms)}; give it a term (terms.Zero() if it has none)"
            )
        object.__setattr__(self, "terms", dict(self.terms))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks, in the order of a sweep."""
        return tuple(self.terms)

    def value(self, z: Blocks) -> float:
        """``Psi(z)``."""
        return math.fsum(
            [*(float(term.value(z[b])) for b, term in self.terms.items()), float(self.coupling.value(z))]
        )

    def restrict(self, block: str, z: Blocks) -> Restricted:
        """``H`` as a function of one block."""
        own = getattr(self.coupling, "restrict", None)
        return Restricted(self.coupling, block, z) if own is None else own(block, z)

    def stationarity(self, z: Blocks) -> float:
        """How far ``z`` is from a critical point: ``sqrt(sum_b dist(-grad_b H, subdiff term_b)^2)``.

        A term without ``subdiff_distance`` contributes its prox-gradient residual
        ``tau ||z_b - prox(z_b - grad_b H / tau)||``, which is zero at the same points.
        """
        squares = []
        for block, term in self.terms.items():
            sub = SubProblem.of(self, block, z)
            own = getattr(term, "subdiff_distance", None)
            gradient = sub.grad(z[block])
            if own is not None:
                squares.append(float(own(z[block], -gradient)) ** 2)
                continue
            tau = sub.lipschitz() or 1.0
            step = sub.prox(z[block] - gradient / tau, 1.0 / tau)
            squares.append((tau * arrays.distance(z[block], step)) ** 2)
        return math.sqrt(math.fsum(squares))

    def project(self, start: Blocks) -> dict[str, Array]:
        """``start`` with every block that lies outside its term's domain moved to the nearest point inside."""
        return {
            block: start[block]
            if math.isfinite(self.terms[block].value(start[block]))
            else arrays.as_kind(self.terms[block].prox(start[block], 1.0), start[block])
            for block in self.blocks
        }

    def check_start(self, start: Any) -> dict[str, Array]:
        """A checked copy of ``start``, or a sentence that says which block is wrong and why."""
        if not isinstance(start, Mapping):
            raise TypeError(f"start must be a dict of block name to array, got {type(start).__name__}")
        for block in start:
            if block not in self.terms:
                raise ValueError(
                    f"start has a block {block!r} that the problem does not know; it has {list(self.terms)}"
                )
        for block in self.terms:
            if block not in start:
                raise ValueError(f"block {block!r} is missing from start, which has {list(start)}")
        z = {block: _checked_block(block, start[block]) for block in self.terms}
        for block, term in self.terms.items():
            value = float(term.value(z[block]))
            if math.isnan(value) or math.isinf(value):
                raise ValueError(
                    f"block {block!r}: start lies outside the domain of {term!r} (its value there is {value}); "
                    "problem.project(start) gives the nearest point inside"
                )
        value = float(self.coupling.value(z))
        if not math.isfinite(value):
            raise ValueError(f"the coupling's value at start is {value}; it must be finite")
        for block in self.terms:
            gradient = self.coupling.grad(block, z)
            if tuple(gradient.shape) != tuple(z[block].shape):
                raise ValueError(
                    f"block {block!r}: the coupling's gradient has shape {tuple(gradient.shape)}, "
                    f"but the block has shape {tuple(z[block].shape)}"
                )
            if not arrays.all_finite(gradient):
                raise ValueError(f"block {block!r}: the coupling's gradient at start has NaN or Inf")
        return z


def _checked_block(block: str, x: Any) -> Array:
    if arrays.is_sparse(x):
        from scipy.sparse import csr_array

        x = csr_array(x)
    if not arrays.is_real_float(x):
        kind = getattr(x, "dtype", type(x).__name__)
        raise TypeError(
            f"block {block!r}: start must be a float32 or float64 array, got {kind}; convert it with .astype(float)"
        )
    if 0 in tuple(x.shape):
        raise ValueError(f"block {block!r}: start is empty, its shape is {tuple(x.shape)}")
    if not arrays.all_finite(x):
        raise ValueError(f"block {block!r}: start has NaN or Inf")
    return arrays.copy(x)


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
    seed: tuple[int, ...] = (0,)
    counters: Counters = field(default_factory=Counters)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)  # shared by copies with another eta

    @classmethod
    def of(
        cls, problem: Problem, block: str, z: Blocks, eta: float = 0.0, memory: Memory | None = None
    ) -> SubProblem:
        """The sub-problem of ``block`` at ``z``, for trying a strategy by hand.

        >>> import numpy as np, tecu
        >>> from tecu import couplings, terms
        >>> H = couplings.MatrixFactorization(np.eye(2), codes="W", dictionary="D")
        >>> problem = tecu.Problem(H, {"W": terms.L1(0.1), "D": terms.UnitColumns()})
        >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 1)), "D": np.array([[1.0], [0.0]])}, eta=1.0)
        >>> sub.grad(sub.previous).ravel().tolist()
        [-1.0, 0.0]
        """
        return cls(
            block, problem.terms[block], problem.restrict(block, z), z[block], eta,
            {} if memory is None else memory, dict(z),
        )  # fmt: skip

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

    def coupling_value(self, u: Array) -> float:
        """``H(u, others)``."""
        if u is self.previous:
            return self.coupling_value_at_previous()
        self.counters.values += 1
        return float(self.smooth.value(u))

    def coupling_grad(self, u: Array) -> Array:
        """The gradient of ``H(., others)``."""
        if u is self.previous:
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
        return self.coupling_value(u) + 0.5 * self.eta * distance**2

    def grad(self, u: Array) -> Array:
        """The gradient of ``phi``."""
        gradient = self.coupling_grad(u)
        return gradient if u is self.previous or not self.eta else gradient + self.eta * (u - self.previous)

    def hessian(self, v: Array) -> Array | None:
        """The second derivative of ``phi`` applied to ``v``; ``None`` where ``H`` is not quadratic in this block."""
        if not self.is_quadratic:
            return None
        self.counters.hessians += 1
        product = self.smooth.hessian(v)
        return product + self.eta * v if self.eta else product

    @property
    def is_quadratic(self) -> bool:
        """Whether ``H`` is known to be quadratic in this block."""
        if "quadratic" not in self._cache:
            self._cache["quadratic"] = self.smooth.is_quadratic()
        return bool(self._cache["quadratic"])

    def prox(self, x: Array, step: float) -> Array:
        """``prox`` of the term, in the block's own kind and precision."""
        self.counters.proxes += 1
        return arrays.as_kind(self.term.prox(x, step), self.previous)

    def lipschitz(self) -> float | None:
        """A Lipschitz constant of ``grad phi``, that is of ``grad H`` plus ``eta``; ``None`` where the coupling has none."""
        if "lipschitz" not in self._cache:
            self._cache["lipschitz"] = self.smooth.lipschitz(self.memory)
        constant: float | None = self._cache["lipschitz"]
        return None if constant is None else constant + self.eta

    def prox_gradient_step(
        self, u: Array, gradient: Array | None = None, tau: float | None = None
    ) -> tuple[Array, float]:
        """``u~ = prox(u - grad phi(u) / tau)`` and the ``tau`` it took.

        Without ``tau``: the Lipschitz constant where the coupling offers one, otherwise back-tracking until ``phi``
        lies below its quadratic model on the step.
        """
        if gradient is None:
            gradient = self.grad(u)
        if tau is None:
            constant = self.lipschitz()
            if constant is None:
                return backtrack(self, u, gradient)[:2]
            # Where H does not depend on the block (L = 0) any step will do.
            tau = constant if constant > 0.0 else 1.0
        return self.prox(u - gradient / tau, 1.0 / tau), tau

    def rounding(self, u: Array, gradient_norm: float, tau: float) -> float:
        """``8 r (tau ||u|| + ||grad phi||)``, ``r`` the unit round-off: what is smaller in an error means nothing."""
        return 8.0 * arrays.unit_roundoff(u) * (tau * arrays.norm(u) + gradient_norm)

    def value_slack(self, *values: float) -> float:
        """How far values of ``H`` that should be equal may differ: ``8 sqrt(terms summed)`` units in the last place."""
        largest = max((self.smooth.magnitude(v) for v in values), default=0.0)
        return 8.0 * math.sqrt(math.prod(self.previous.shape)) * arrays.unit_roundoff(self.previous) * largest
