"""A problem, ``min Psi(z) = sum_b term_b(z_b) + H(z)``, and the sub-problem of one block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from operator import call
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.protocols import Blocks, Coupling, Restricted, Term
from tecu.subproblem import SubProblem

__all__ = ["Problem", "SubProblem"]

OPTIONAL = {
    "lipschitz": "block, z",
    "hessian": "block, z, v",
    "minimize": "block, z, term, eta",
    "restrict": "block, z",
}


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
        _require_instance("coupling", self.coupling)
        for name in ("value", "grad"):
            if not callable(getattr(self.coupling, name, None)):
                raise TypeError(
                    f"coupling {self.coupling!r} has no method {name!r}; a coupling needs value(z) and grad(block, z)"
                )
        for name, arguments in OPTIONAL.items():
            own = getattr(self.coupling, name, None)
            if own is not None and not callable(own):
                raise TypeError(f"coupling: {name} must be a method, {name}({arguments}), got {type(own).__name__}")
        for block, term in self.terms.items():
            _require_instance(f"block {block!r}: term", term)
            missing = [name for name in ("value", "prox", "is_convex") if not hasattr(term, name)]
            if missing:
                raise TypeError(
                    f"block {block!r}: term {term!r} lacks {', '.join(missing)}; a term needs value, prox and is_convex"
                )
            if callable(term.is_convex):  # which would always be true
                raise TypeError(
                    f"block {block!r}: is_convex of term {term!r} must be True or False, got a method; make it an "
                    "attribute or a property"
                )
        unknown = [name for name in getattr(self.coupling, "blocks", ()) if name not in self.terms]
        if unknown:
            raise ValueError(
                f"the coupling uses block {unknown[0]!r}, but terms has only {list(self.terms)}; "
                "give it a term (terms.Zero() if it has none)"
            )
        object.__setattr__(self, "terms", dict(self.terms))

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks, in the order of a sweep."""
        return tuple(self.terms)

    def value(self, z: Blocks) -> float:
        """``Psi(z)``."""
        self._require_blocks(z, "z")
        return math.fsum([*(self._term(block, z[block]) for block in self.terms), self._coupling(z)])

    def _term(self, block: str, x: Array) -> float:
        return _number(self.terms[block].value(x), f"block {block!r}: the value of {self.terms[block]!r}")

    def _coupling(self, z: Blocks) -> float:
        return _number(self.coupling.value(z), "the coupling's value")

    def restrict(self, block: str, z: Blocks) -> Restricted:
        """``H`` as a function of one block."""
        own = getattr(self.coupling, "restrict", None)
        return Restricted(self.coupling, block, z) if own is None else own(block, z)

    def answers(self, *kinds: Iterable[Callable[[], Any]]) -> list[list[Any]]:
        """The answers of calls of several kinds, of which none needs another; side by side where the coupling can.

        They are begun by turns: calls of one kind are after the same things, the interpreter or the memory, and keep
        each other waiting.
        """
        numbered = [[(kind, each) for each in calls] for kind, calls in enumerate(kinds)]
        turns = [one for row in zip_longest(*numbered) for one in row if one is not None]
        calls, own = [each for _, each in turns], getattr(self.coupling, "each", None)
        answers = list(map(call, calls)) if own is None else own(call, calls)
        found: list[list[Any]] = [[] for _ in numbered]
        for (kind, _), answer in zip(turns, answers, strict=True):
            found[kind].append(answer)
        return found

    def begin_sweep(self, z: Blocks) -> None:
        """Tell a coupling that wants to know it that the blocks are about to be visited."""
        own = getattr(self.coupling, "begin_sweep", None)
        if own is not None:
            own(z)

    def stationarity(self, z: Blocks) -> float:
        """How far ``z`` is from a critical point: ``sqrt(sum_b dist(-grad_b H, subdiff term_b)^2)``.

        A term without ``subdiff_distance`` contributes its prox-gradient residual
        ``tau ||z_b - prox(z_b - grad_b H / tau)||``, ``tau`` the Lipschitz constant or one found by back-tracking. For
        a convex term that is zero at the same points; for another one at those that this step does not leave.
        """
        self._require_blocks(z, "z")
        distances = []
        for block, term in self.terms.items():
            sub = SubProblem.of(self, block, z)
            own = getattr(term, "subdiff_distance", None)
            gradient = sub.grad(z[block])
            if own is not None:
                distances.append(float(own(z[block], -gradient)))
                continue
            step, tau = sub.prox_gradient_step(z[block], gradient)
            distances.append(tau * arrays.distance(z[block], step))
        return math.hypot(*distances)

    def project(self, start: Blocks) -> dict[str, Array]:
        """``start`` with every block that lies outside its term's domain moved to the nearest point inside."""
        self._require_blocks(start, "start")
        z = {block: _checked_block(block, start[block]) for block in self.blocks}
        return {
            block: x if math.isfinite(self.terms[block].value(x)) else arrays.as_kind(self.terms[block].prox(x, 1.0), x)
            for block, x in z.items()
        }

    def _require_blocks(self, z: Any, name: str) -> None:
        if not isinstance(z, Mapping):
            raise TypeError(f"{name} must be a dict of block name to array, got {type(z).__name__}")
        for block in self.terms:
            if block not in z:
                raise ValueError(f"block {block!r} is missing from {name}, which has {list(z)}")

    def check_start(self, start: Any) -> dict[str, Array]:
        """A checked copy of ``start``, or a sentence that says which block is wrong and why."""
        self._require_blocks(start, "start")
        for block in start:
            if block not in self.terms:
                raise ValueError(
                    f"start has a block {block!r} that the problem does not know; it has {list(self.terms)}"
                )
        z = {block: arrays.copy(_checked_block(block, start[block])) for block in self.terms}
        here = {block: arrays.library(x) for block, x in z.items() if not arrays.is_elsewhere(x)}
        if len(set(here.values())) > 1:
            raise TypeError(f"the blocks of start must be arrays of one library, got {here}")
        for block, term in self.terms.items():
            value = self._term(block, z[block])
            if math.isnan(value) or math.isinf(value):
                raise ValueError(
                    f"block {block!r}: start lies outside the domain of {term!r} (its value there is {value}); "
                    "problem.project(start) gives the nearest point inside"
                )
            if value == 0.0:
                z[block] = _well_inside(term, z[block])
        self._require_one_precision(z)
        value = self._coupling(z)
        if not math.isfinite(value):
            raise ValueError(f"the coupling's value at start is {value}; it must be finite")
        return z

    def _require_one_precision(self, z: Blocks) -> None:
        """torch multiplies no matrices of two precisions: refused, unless the coupling brings them together itself."""
        precisions = {block: str(x.dtype) for block, x in z.items() if arrays.is_torch(x)}
        if len(set(precisions.values())) < 2:
            return
        try:
            for block in z:
                SubProblem.of(self, block, z).prox_gradient_step(z[block])
        except RuntimeError as error:
            raise TypeError(
                f"the blocks of start are torch tensors of several precisions, {precisions}, which "
                f"{self.coupling!r} does not take together; convert them to one, as with .double()"
            ) from error


def _require_instance(what: str, given: Any) -> None:
    if isinstance(given, type):
        raise TypeError(f"{what} must be an instance, got the class {given.__name__}; write {given.__name__}(...)")


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        shape = getattr(value, "shape", None)
        got = type(value).__name__ if shape is None else f"an array of shape {tuple(shape)}"
        raise TypeError(f"{what} must be a number, got {got}") from error


def _well_inside(term: Term, x: Array) -> Array:
    """``x`` where the term is 0 to rounding; the nearest point of its set where many entries are outside at once.

    A set may let each entry stray by ``32 r sqrt(size)``; that of one point as a whole is what later tests allow for.
    """
    if arrays.is_elsewhere(x):
        return x
    inside = arrays.as_kind(term.prox(x, 1.0), x)
    if tuple(inside.shape) != tuple(x.shape):
        return x  # the first visit says so
    r = arrays.unit_roundoff(x) * max(1.0, arrays.norm(x))
    return inside if 8 * r < arrays.distance(x, inside) <= 32 * r * math.prod(x.shape) else x


def _said(x: Any) -> str:
    """What somebody gave instead of an array of floats, and what to do about it."""
    kind = str(getattr(x, "dtype", ""))
    if not kind:
        return f"a {type(x).__name__}; make it one with np.asarray(..., dtype=float)"
    if "complex" in kind:
        return f"{kind}; give real and imaginary parts as a last axis of two, or as two blocks"
    if arrays.is_torch(x):
        if str(x.layout) != "torch.strided":
            return "a sparse torch tensor; use .to_dense(), or a SciPy CSR array"
        return f"{kind}; convert it with .double() or .float()"
    return f"{kind}; convert it with .astype(float)"


def _checked_block(block: str, x: Any) -> Array:
    x = arrays.plain(x)
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"block {block!r}: start must have all of its entries, got a masked array; use .filled(0.0)")
    if arrays.is_sparse(x):
        from scipy.sparse import csr_array

        x = arrays.canonical(csr_array(x))
    if not arrays.is_real_float(x):
        raise TypeError(f"block {block!r}: start must be a float32 or float64 array, got {_said(x)}")
    if 0 in tuple(x.shape):
        raise ValueError(f"block {block!r}: start is empty, its shape is {tuple(x.shape)}")
    if not arrays.all_finite(x):
        raise ValueError(f"block {block!r}: start has NaN or Inf")
    return x
