"""A PyProximal ``ProxOperator`` as a term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.terms.base import Addable, indicator, rounding

CONVEX = frozenset(
    (
        "AffineSet",
        "Box",
        "Euclidean",
        "EuclideanBall",
        "HalfSpace",
        "Huber",
        "HuberCircular",
        "L1",
        "L1Ball",
        "L2",
        "L21",
        "L21_plus_L1",
        "L2Convolve",
        "Nuclear",
        "NuclearBall",
        "TV",
        "_Simplex",
        "_Simplex_numba",
        "_Simplex_cuda",
    )
)
NOT_CONVEX = frozenset(
    (
        "ETP",
        "Geman",
        "L0",
        "L0Ball",
        "L01Ball",
        "L10Ball",
        "Log",
        "Log1",
        "QuadraticEnvelopeCard",
        "QuadraticEnvelopeCardIndicator",
        "QuadraticEnvelopeRankL2",
        "RelaxedMumfordShah",
        "SCAD",
    )
)
ITERATIVE = frozenset(("AffineSet", "GenericIntersectionProx", "Intersection", "Nonlinear", "RED", "Sum", "TV"))


def term(
    operator: Any, *, is_convex: bool | None = None, value: Callable[[np.ndarray[Any, Any]], float] | None = None
) -> ProximalTerm:
    """``f(x) = operator(x)``, with ``operator.prox(x, step)`` as its prox: a PyProximal operator as a term.

    Parameters
    ----------
    operator
        Anything with ``prox(x, tau)``, a global minimiser of ``f(z) + ||z - x||^2 / (2 tau)`` over flat NumPy vectors.
        Blocks of every kind and shape are ravelled row by row and brought back.
    is_convex
        Known for most of PyProximal's own operators; has to be said for others.
    value
        ``x -> f(x)`` for an operator that has no value. ``True`` and ``False`` mean inside and outside of a set.

    Notes
    -----
    :func:`tecu.testing.check_term` tells whether value and prox belong together. Those of ``pyproximal.L0`` do not: it
    cuts at ``step * sigma`` where the prox of l0 cuts at ``sqrt(2 step sigma)``; take :class:`tecu.terms.L0`.

    Examples
    --------
    >>> import numpy as np, pyproximal
    >>> from tecu import interop
    >>> ball = interop.term(pyproximal.EuclideanBall(np.zeros(2), 1.0))
    >>> ball.prox(np.array([[3.0, 4.0]]), step=1.0)
    array([[0.6, 0.8]])
    >>> ball.is_convex, ball.value(np.array([[3.0, 4.0]]))
    (True, inf)
    """
    return ProximalTerm(operator, is_convex, value)


class ProximalTerm(Addable):
    """A term made by :func:`term`."""

    def __init__(self, operator: Any, is_convex: bool | None, value: Callable[[Any], float] | None) -> None:
        name = type(operator).__name__
        if not callable(getattr(operator, "prox", None)):
            raise TypeError(f"interop.term: {operator!r} has no prox(x, tau); a PyProximal ProxOperator has one")
        if value is None and _has_no_value(operator):
            raise TypeError(
                f"interop.term: {name} has a prox but no value, and without one no descent can be checked; "
                "give it by value=lambda x: ... (for a set: True inside, False outside)"
            )
        if is_convex is None:
            if name not in CONVEX | NOT_CONVEX or not type(operator).__module__.startswith("pyproximal"):
                raise ValueError(
                    f"interop.term: whether {name} is convex is not known here; say is_convex=True or False"
                )
            is_convex = name in CONVEX
        self.operator, self.given_value, self.is_convex = operator, value, bool(is_convex)
        self.unchecked = tuple(_notes(operator, name))

    def value(self, x: Array) -> float:
        """``operator(x)``; for a set 0 inside, up to rounding, and ``inf`` outside."""
        flat = self._flat(x)
        answer = (self.operator if self.given_value is None else self.given_value)(flat.copy())
        if answer is None:
            raise TypeError(
                f"interop.term: the value of {type(self.operator).__name__} is None; give another by value="
            )
        if not isinstance(answer, bool | np.bool_):
            return float(answer)
        if answer:
            return 0.0
        away = float(np.max(np.abs(flat - self._prox(flat, 1.0)), initial=0.0))
        return indicator(away, rounding(x) * (1.0 + float(np.max(np.abs(flat), initial=0.0))))

    def prox(self, x: Array, step: float) -> Array:
        """``operator.prox(x, step)``."""
        answer = self._prox(self._flat(x), float(step)).reshape(tuple(x.shape))
        return arrays.as_kind(answer, x) if arrays.is_sparse(x) else arrays.from_numpy(answer, x)

    def _prox(self, flat: np.ndarray[Any, Any], step: float) -> np.ndarray[Any, Any]:
        answer = np.array(self.operator.prox(flat.copy(), step))
        if answer.size != flat.size or np.iscomplexobj(answer):
            raise ValueError(
                f"interop.term: the prox of {type(self.operator).__name__} must give {flat.size} real numbers, "
                f"got shape {answer.shape} of {answer.dtype}"
            )
        return answer.reshape(-1)

    def _flat(self, x: Array) -> np.ndarray[Any, Any]:
        return arrays.host(arrays.dense(x)).reshape(-1)

    def __repr__(self) -> str:
        return f"interop.term({type(self.operator).__name__})"


def _has_no_value(operator: Any) -> bool:
    """Whether ``__call__`` is missing, or is the one of PyProximal's base class, which only raises."""
    return not callable(operator) or type(operator).__call__.__qualname__ == "ProxOperator.__call__"


def _notes(operator: Any, name: str) -> list[str]:
    """What the certificate cannot check of this operator."""
    notes = []
    inner = getattr(operator, "Op", None) is not None and getattr(operator, "niter", None) is not None
    if name in ITERATIVE or inner:
        notes.append(
            f"the prox of {name} is computed by inner iterations; that it is a global minimiser was only compared with "
            "the points at hand"
        )
    if inner and getattr(operator, "warm", False):
        notes.append(f"the prox of {name} starts from its last answer, so it depends on the calls before")
    if any(callable(getattr(operator, setting, None)) for setting in ("sigma", "radius")):
        notes.append(f"{name} changes its weight from call to call, so the objective is not one function")
    return notes
