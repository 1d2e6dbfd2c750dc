"""What the terms share: adding two of them, checked parameters, the way through a CSR array."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu.arrays import Array, as_kind, canonical, dense, host, is_sparse, namespace, unit_roundoff

if TYPE_CHECKING:
    from tecu.protocols import Term
    from tecu.terms.sums import Sum

INFINITY = math.inf
SAFE = 1e-28  # a sum of squares between this and its inverse has lost nothing, in float32 neither


class Addable:
    """``a + b`` is :class:`tecu.terms.Sum` of the two, where their joint prox has a closed form."""

    def __add__(self: Any, other: Term) -> Sum:
        from tecu.terms.sums import Sum

        return Sum(self, other)

    def __radd__(self: Any, other: Term) -> Sum:
        from tecu.terms.sums import Sum

        return Sum(other, self)


@dataclass(frozen=True)
class Entrywise:
    """``l0 [x != 0] + l1 |x| + l2/2 x^2`` on ``lower <= x <= upper``: a separable term, for one entry."""

    l0: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    lower: Array = -INFINITY
    upper: Array = INFINITY


def checked_weight(term: object, weight: Any, name: str = "weight") -> float:
    """``weight`` as a float; refused unless it is finite and not negative."""
    if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < INFINITY:
        raise ValueError(f"{type(term).__name__}: {name} must be a finite number >= 0, got {weight!r}")
    return float(weight)


def checked_positive(term: object, number: Any, name: str) -> float:
    """``number`` as a float; refused unless it is finite and positive."""
    if isinstance(number, bool) or not isinstance(number, Real) or not 0 < float(number) < INFINITY:
        raise ValueError(f"{type(term).__name__}: {name} must be a finite number > 0, got {number!r}")
    return float(number)


def checked_count(term: object, number: Any, name: str) -> int:
    """``number`` as an int; refused unless it is a whole number of at least 1."""
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
        raise ValueError(f"{type(term).__name__}: {name} must be a whole number >= 1, got {number!r}")
    return int(number)


def checked_axis(term: object, axis: Any) -> int:
    """``axis`` as an int; refused otherwise."""
    if isinstance(axis, bool) or not isinstance(axis, Integral):
        raise TypeError(f"{type(term).__name__}: axis must be a whole number such as 0 or 1, got {axis!r}")
    return int(axis)


def checked_flag(term: object, flag: Any, name: str) -> bool:
    """``flag`` as a bool; refused otherwise."""
    if not isinstance(flag, bool | np.bool_):
        raise TypeError(f"{type(term).__name__}: {name} must be True or False, got {flag!r}")
    return bool(flag)


def checked_step(term: object, step: Any) -> float:
    """``step`` as a Python float, which never widens a float32 array; refused unless finite and positive."""
    number = float(step)
    if not 0 < number < INFINITY:
        raise ValueError(f"{type(term).__name__}: the prox needs a finite step > 0, got {step!r}")
    return number


def check_axis_of(term: object, axis: int, x: Array) -> None:
    """Refuse a block that has no such axis."""
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{type(term).__name__}: axis {axis} does not exist in a block of shape {tuple(x.shape)}")


def check_matrix(term: object, x: Array) -> None:
    """Refuse a block that is not a matrix."""
    if x.ndim != 2:
        raise ValueError(f"{type(term).__name__}: the block must be a matrix, got an array of shape {tuple(x.shape)}")


def rounding(x: Array) -> float:
    """``32 u sqrt(size)``: a constraint violated by no more than this holds, up to rounding."""
    return 32 * unit_roundoff(x) * math.sqrt(max(math.prod(x.shape), 1))


def indicator(violation: float, tolerance: float) -> float:
    """0 where the violation is within the tolerance, else inf (NaN counts as a violation)."""
    return 0.0 if violation <= tolerance else INFINITY


def largest(values: Any) -> float:
    """The largest entry, NaN if there is one; ``-inf`` of nothing."""
    return float(np.max(values, initial=-INFINITY))


def in_range(number: float, x: Array) -> float:
    """``number``, or an infinity where the precision of ``x`` cannot hold it."""
    limit = float(np.finfo(host(x).dtype).max)
    return number if -limit <= number <= limit else math.copysign(INFINITY, number)


def finite(number: float, x: Array) -> float:
    """A positive ``number``, or the largest that the precision of ``x`` can hold."""
    return min(number, float(np.finfo(host(x).dtype).max))


def on_entries(function: Callable[[Array], Array], x: Array) -> Array:
    """``function`` of every entry, ``function(0) = 0``: the stored ones of a CSR array, new zeros dropped."""
    if not is_sparse(x):
        return function(x)
    x = canonical(x)
    return with_data(x, function(x.data))


def with_data(x: Array, data: Array) -> Array:
    """The CSR array ``x`` with other stored values, zeros dropped."""
    out = type(x)((data, x.indices.copy(), x.indptr.copy()), shape=x.shape)
    out.eliminate_zeros()
    return out


def through_dense(function: Callable[[Array], Array], x: Array) -> Array:
    """``function`` of the dense form of ``x``, in the kind of ``x``."""
    if not is_sparse(x):
        return function(x)
    return as_kind(function(dense(x)), x)


def stored(x: Array) -> np.ndarray[Any, Any]:
    """All entries of ``x`` that may be non-zero, as a NumPy array."""
    return host(canonical(x) if is_sparse(x) else x)


def whole(x: Array) -> np.ndarray[Any, Any]:
    """``x`` as a dense NumPy array of the same shape."""
    return host(dense(x))


def slice_norms(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """``(scaled, norms, size)`` along ``axis``, which stays: ``x = size scaled`` and ``||x|| = size norms``.

    Squares are taken of ``scaled`` only, so that none over- or underflows; ``size`` is 1 where ``x`` itself is safe.
    """
    xp = namespace(x)
    if isinstance(x, np.ndarray):  # the common case, in half the time
        with np.errstate(over="ignore", under="ignore"):
            squares = np.sum(x * x, axis=axis, keepdims=True)
        if np.all((squares > SAFE) & (squares < 1 / SAFE)):
            return x, np.sqrt(squares), np.ones_like(squares)
    size = xp.max(xp.abs(x), axis=axis, keepdims=True)
    safe = xp.where(size == 0, xp.ones_like(size), size)
    with np.errstate(invalid="ignore"):
        scaled = x / safe
    return scaled, xp.sqrt(xp.sum(scaled * scaled, axis=axis, keepdims=True)), size


def running_sum(x: Array, axis: int) -> Array:
    """The cumulative sum along ``axis``, under the name it has in this library and version."""
    xp = namespace(x)
    return (getattr(xp, "cumulative_sum", None) or xp.cumsum)(x, axis=axis)
