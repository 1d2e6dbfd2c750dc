"""What a term, a coupling and a strategy promise the solver.

The objective is ``Psi(z) = sum_b term_b(z_b) + H(z)``: one :class:`Term` a block, one :class:`Coupling` ``H``.
Nothing here has to be inherited from; any object with these methods fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from tecu import arrays
from tecu.arrays import Array

if TYPE_CHECKING:
    from tecu.inexact import Candidate
    from tecu.problem import SubProblem
    from tecu.terms.base import Entrywise

Blocks = Mapping[str, Array]
"""The blocks by name, ``{"W": ..., "D": ...}``."""

Memory = MutableMapping[str, Any]
"""What must survive a visit: arrays, numbers, strings, and lists and dicts of these."""

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
"""The unit round-off of a precision by its name."""


@runtime_checkable
class Term(Protocol):
    """A simple function of one block.

    ``prox(x, step)`` is a *global* minimiser of ``term(z) + ||z - x||^2 / (2 step)``. Optional:
    ``subdiff_distance(x, g)``, the distance of ``g`` to the subdifferential at ``x``; ``prox_and_value(x, step)``, the
    prox with the term's value there, where the two share work.
    """

    @property
    def is_convex(self) -> bool:
        """Whether the term is a convex function."""
        ...

    def value(self, x: Array) -> float:
        """The term at ``x``; ``inf`` outside its domain."""
        ...

    def prox(self, x: Array, step: float) -> Array:
        """A global minimiser of ``term(z) + ||z - x||^2 / (2 step)`` over ``z``."""
        ...


@runtime_checkable
class Coupling(Protocol):
    """The smooth function ``H`` of all blocks.

    Optional methods, each of which may answer ``None`` for a block where it has nothing to offer:

    ``lipschitz(block, z)``
        a Lipschitz constant of ``grad(block, .)`` with the other blocks held; without it: back-tracking.
    ``hessian(block, z, v)``
        the second derivative applied to ``v``, where ``H`` is *quadratic* in the block.
    ``minimize(block, z, term, eta)``
        the exact minimiser of ``term(u) + H(u, others) + eta/2 ||u - z[block]||^2``.
    ``restrict(block, z)``
        ``H`` as a function of that block alone (:class:`Restricted`), so that work is shared within a visit.
    ``each(function, items)``
        the answers of a function for items that do not need each other, in their order. For a coupling with threads
        of its own: the tests and the audits of several blocks then run side by side, and its methods with them.
    ``computes_in``
        not a method: ``"float32"`` where values and gradients are computed in that precision, whatever the blocks have.
    ``begin_sweep(z)``
        called before the first visit of a sweep. What a coupling carries from visit to visit and does not get from
        ``z`` alone, it can give up here: then a run that was resumed repeats every bit.
    """

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        ...

    def grad(self, block: str, z: Blocks) -> Array:
        """The gradient of ``H`` with respect to one block."""
        ...


class ProxStep(NamedTuple):
    """A prox-linear step that a coupling made by itself, and what it knows of it."""

    u: Array
    slope: float  # <grad H(previous), u - previous>
    move: float  # ||u - previous||


def entrywise_of(term: Term) -> Entrywise | None:
    """What a term that is a sum over its entries does to one of them; ``None`` for other terms.

    Said by ``entrywise``; but a class that inherits it and writes another ``value`` or ``prox`` has not said so.
    """
    own, classes = getattr(term, "__dict__", {}), [vars(cls) for cls in type(term).__mro__]
    if "entrywise" in own and not any("entrywise" in names for names in classes):  # if one has it: its cached property
        return cast("Entrywise | None", own["entrywise"])
    for names in (own, *classes):
        if names is not own and "entrywise" in names:
            return cast("Entrywise | None", getattr(term, "entrywise", None))
        if "value" in names or "prox" in names:
            return None
    return None


def is_only(term: Term, *kinds: type) -> bool:
    """Whether a term is of one of these classes, with the ``value`` and ``prox`` that were written there."""
    own = getattr(term, "__dict__", {})
    return any(
        isinstance(term, kind)
        and all(name not in own and getattr(type(term), name) is getattr(kind, name) for name in ("value", "prox"))
        for kind in kinds
    )


def treats_entries_alike(term: Term) -> bool:
    """Whether a term is a sum of one function over all entries, so that some of them can be had without the others."""
    entry = entrywise_of(term)
    return entry is not None and np.ndim(entry.lower) == 0 and np.ndim(entry.upper) == 0


class Restricted:
    """``H`` as a function of one block ``u``, the others held.

    This base class asks the coupling each time. A coupling with something to share between the calls of one
    visit (a Gram matrix, a residual) returns a subclass of it from ``restrict(block, z)``.
    """

    def __init__(self, coupling: Coupling, block: str, z: Blocks) -> None:
        self.coupling, self.block, self.z = coupling, block, dict(z)

    def _at(self, u: Array) -> dict[str, Array]:
        return {**self.z, self.block: u}

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        return float(self.coupling.value(self._at(u)))

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``, in memory of its own: a coupling may write each one to the same."""
        return arrays.copy(self._checked(self.coupling.grad(self.block, self._at(u)), "gradient"))

    def _checked(self, answer: Any, name: str) -> Array:
        """What the coupling answered, as an array that can be reckoned with beside the block's own, or refused."""
        answer, said = arrays.plain(answer), f"block {self.block!r}: the coupling's {name}"
        if not hasattr(answer, "shape"):
            raise TypeError(f"{said} must be an array, got a {type(answer).__name__}")
        is_torch = arrays.is_torch(answer)
        if answer.is_complex() if is_torch else isinstance(answer, np.ndarray) and answer.dtype.kind == "c":
            raise TypeError(f"{said} is complex; take its real part")
        if isinstance(answer, np.ma.MaskedArray):
            raise TypeError(f"{said} is a masked array; use .filled(0.0)")
        if is_torch != arrays.is_torch(self.z[self.block]):  # which do not mix
            return arrays.host(answer) if is_torch else arrays.as_kind(answer, self.z[self.block])
        return answer

    def grad_entries(self, u: Array, rows: Array, columns: Array) -> Array | None:
        """Some entries of the gradient at ``u``, or ``None`` where they cost as much as all of them.

        For sparse blocks, whose gradient is dense: the tests of a gradient look at a few entries only.
        """
        return None

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of one where they share their work."""
        return self.value(u), self.grad(u)

    def hessian(self, v: Array) -> Array | None:
        """The second derivative applied to ``v``, or ``None`` where ``H`` is not quadratic in this block."""
        hessian = getattr(self.coupling, "hessian", None)
        product = None if hessian is None else hessian(self.block, self.z, v)
        if product is None:
            return None
        product, wanted = self._checked(product, "hessian"), tuple(self.z[self.block].shape)
        if tuple(product.shape) != wanted:
            said = f"block {self.block!r}: the coupling's hessian returned the shape {tuple(product.shape)}"
            raise ValueError(f"{said}, but the block has shape {wanted}")
        return product

    def is_quadratic(self) -> bool:
        """Whether ``H`` is quadratic in this block, so that :meth:`hessian` answers."""
        if getattr(self.coupling, "hessian", None) is None:
            return False
        return self.hessian(self.z[self.block]) is not None

    def lipschitz(self, memory: Memory) -> float | None:
        """A Lipschitz constant of the gradient, or ``None``.

        ``memory`` keeps a power iteration's vector; matrix products spent on it are added to ``memory["products"]``.
        """
        lipschitz = getattr(self.coupling, "lipschitz", None)
        answer = None if lipschitz is None else lipschitz(self.block, self.z)
        if answer is None:
            return None
        try:
            return float(answer)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"block {self.block!r}: the coupling's lipschitz must return a number or None, got {answer!r}"
            ) from error

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser of ``term(u) + H(u) + eta/2 ||u - z[block]||^2``, or ``None`` without a closed form."""
        minimize = getattr(self.coupling, "minimize", None)
        return None if minimize is None else minimize(self.block, self.z, term, eta)

    def prox_linear(self, term: Term, gamma: float) -> ProxStep | None:
        """``prox(z[block] - grad / gamma, 1 / gamma)`` without a gradient in memory, or ``None``.

        For a coupling that can do better than one array after the other. Random visits are audited against ``grad``
        and the term's ``prox``.
        """
        return None

    def magnitude(self, value: float) -> float:
        """The size of the numbers that were summed to get ``value``: rounding errors are relative to this.

        Tests allow for ``8 r sqrt(entries of the block)`` times the answer and more, ``r`` the unit round-off. Larger
        than it need be, it hides mistakes; too small, it raises alarms.
        """
        return abs(value)

    def roundoff(self) -> float:
        """The unit round-off of values and gradients: the block's, or that of the coarser precision ``H`` computes in.

        The latter is what the coupling's attribute ``computes_in``, ``"float32"``, says.
        """
        own = arrays.unit_roundoff(self.z[self.block])
        said = getattr(self.coupling, "computes_in", None)
        if said is None:
            return own
        if said not in ROUNDOFF:
            raise ValueError(f"the coupling's computes_in must be 'float32' or 'float64', got {said!r}")
        return max(own, ROUNDOFF[said])

    def rounds_unsaid(self) -> bool:
        """Whether nobody says how ``H`` rounds (no ``magnitude`` of its own), so that it has to be measured."""
        return type(self).magnitude is Restricted.magnitude

    # Between visits: after the last one of a sweep the solver asks for ``H`` where the next one will start.

    def settle(self, u: Array) -> float:
        """``H(u, others)`` before a run or when a visit is over; what it took is left to ``inherit``."""
        return self.value(u)

    def inherit(self, settled: Restricted) -> None:
        """Share what another one left when it settled, if that was at these very blocks; others may share it too."""


class Strategy(Protocol):
    """A generator of better and better ``u`` for the sub-problem, for ever; the solver decides when to stop.

    It yields ``u``, or a :class:`~tecu.inexact.Candidate` when it already has the gradient, the prox point or the
    error there. A strategy that ends by itself says ``endless = False``.
    """

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield improvements on ``u`` for ``sub``."""
        ...
