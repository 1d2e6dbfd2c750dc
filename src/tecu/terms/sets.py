"""Constraints on entries, columns and rows: the indicator of a set, whose prox is the projection onto it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tecu.arrays import Array, copy, from_numpy, host, is_sparse, namespace, norm
from tecu.terms.base import (
    INFINITY,
    Addable,
    Entrywise,
    check_matrix,
    checked_flag,
    checked_step,
    indicator,
    largest,
    on_entries,
    rounding,
    slice_norms,
    stored,
    through_dense,
    whole,
)
from tecu.terms.separable import Separable, clipped


@dataclass(frozen=True)
class NonNegative(Addable):
    """``x >= 0``; its prox is ``max(x, 0)``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.NonNegative().prox(np.array([1.0, -2.0]), step=1.0)
    array([1., 0.])
    """

    is_convex: ClassVar[bool] = True

    @property
    def entrywise(self) -> Entrywise:
        """The same set, entry by entry."""
        return Entrywise(lower=0.0)

    def value(self, x: Array) -> float:
        """0 where no entry is negative (up to rounding), else inf."""
        return indicator(largest(-stored(x)), rounding(x))

    def prox(self, x: Array, step: float) -> Array:
        """``max(x, 0)``."""
        checked_step(self, step)
        return on_entries(lambda values: clipped(values, 0.0, INFINITY), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` where ``x > 0``, of its positive part where ``x = 0``."""
        return Separable(self.entrywise).subdiff_distance(x, g)


@dataclass(frozen=True, eq=False)
class Box(Addable):
    """``lower <= x <= upper``; its prox clips. The bounds are numbers or arrays that broadcast to the block.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.Box(0.0, np.array([1.0, 5.0])).prox(np.array([3.0, 4.0]), step=1.0)
    array([1., 4.])
    """

    lower: Array
    upper: Array
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", _checked_bound(self.lower, "lower", forbidden=INFINITY))
        object.__setattr__(self, "upper", _checked_bound(self.upper, "upper", forbidden=-INFINITY))
        lower, upper = host(self.lower), host(self.upper)
        try:
            crossed = np.any(lower > upper)
        except ValueError:
            raise ValueError(
                f"Box: lower has shape {lower.shape} and upper {upper.shape}, which do not fit each other"
            ) from None
        if crossed:
            raise ValueError("Box: lower must not exceed upper, but it does in at least one entry")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return all(
            np.array_equal(host(mine), host(theirs))
            for mine, theirs in ((self.lower, other.lower), (self.upper, other.upper))
        )

    def __hash__(self) -> int:
        return hash((host(self.lower).tobytes(), host(self.upper).tobytes()))

    @property
    def entrywise(self) -> Entrywise:
        """The same set, entry by entry."""
        return Entrywise(lower=self.lower, upper=self.upper)

    def value(self, x: Array) -> float:
        """0 within the bounds (up to rounding), else inf."""
        return Separable(self.entrywise).domain(x)

    def prox(self, x: Array, step: float) -> Array:
        """``min(max(x, lower), upper)``."""
        return Separable(self.entrywise).prox(x, checked_step(self, step))

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` inside, of its part that points into the box at a bound."""
        return Separable(self.entrywise).subdiff_distance(x, g)


@dataclass(frozen=True)
class _UnitSlices(Addable):
    ball: bool = False
    axis: ClassVar[int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ball", checked_flag(self, self.ball, "ball"))

    @property
    def is_convex(self) -> bool:
        """The ball is, the sphere is not."""
        return self.ball

    def value(self, x: Array) -> float:
        """0 where every norm is 1 (for the ball: at most 1) up to rounding, else inf."""
        self.check_shape(x)
        return unit_violation(whole(x), self.axis, self.ball, rounding(x))

    def prox(self, x: Array, step: float) -> Array:
        """``x_j / ||x_j||``; for the ball only where ``||x_j|| > 1``."""
        self.check_shape(x)
        checked_step(self, step)
        return through_dense(lambda values: to_unit(values, self.axis, self.ball), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` without its part along ``x_j`` (for the ball: outwards, at the boundary)."""
        self.check_shape(x)
        return norm(without_radial(whole(x), whole(g), self.axis, self.ball, rounding(x)))

    def check_shape(self, x: Array) -> None:
        """Refuse a block without columns or rows; a vector is one column."""
        if x.ndim != 2 and not (x.ndim == 1 and self.axis == 0):
            check_matrix(self, x)


@dataclass(frozen=True)
class UnitColumns(_UnitSlices):
    """``||x_j|| = 1`` (with ``ball=True``: ``<= 1``) for every column; its prox divides by the norm.

    Every unit vector is as near to a zero column as any other; the prox takes the first coordinate vector.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.UnitColumns().prox(np.array([[3.0, 0.0], [4.0, 0.0]]), step=1.0)
    array([[0.6, 1. ],
           [0.8, 0. ]])
    """

    axis: ClassVar[int] = 0


@dataclass(frozen=True)
class UnitRows(_UnitSlices):
    """``||x_i|| = 1`` (with ``ball=True``: ``<= 1``) for every row; its prox divides by the norm.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.UnitRows(ball=True).prox(np.array([[3.0, 4.0], [0.3, 0.4]]), step=1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    axis: ClassVar[int] = 1


def unit_violation(x: Any, axis: int, ball: bool, tolerance: float) -> float:
    """0 or inf: whether the norms along ``axis`` are 1 (at most 1) up to ``tolerance`` (a NumPy array)."""
    axes = list(range(x.ndim))
    with np.errstate(over="ignore", under="ignore"):  # far from 1 a square may be inf or zero: that is told from 1, too
        squares = np.einsum(x, axes, x, axes, axes[:axis] + axes[axis + 1 :], dtype=np.float64)
        excess = np.sqrt(squares) - 1.0
    return indicator(largest(excess if ball else np.abs(excess)), tolerance)


def to_unit(x: Array, axis: int, ball: bool) -> Array:
    """``x`` with every slice along ``axis`` divided by its norm (for the ball: where that exceeds 1)."""
    xp = namespace(x)
    scaled, norms, size = slice_norms(x, axis)
    if ball:
        with np.errstate(over="ignore"):
            inside = norms * size <= 1
        return xp.where(inside, x, scaled / xp.where(inside, xp.ones_like(norms), norms))
    empty = norms == 0
    if not bool(xp.any(empty)):
        return scaled / norms
    unit = scaled / xp.where(empty, xp.ones_like(norms), norms)
    return xp.where(empty, unit + _first_coordinate(x, axis), unit)


def without_radial(x: Any, g: Any, axis: int, ball: bool, tolerance: float) -> Any:
    """``g`` without its part in the normal cone of the unit sphere or ball at ``x`` (NumPy arrays)."""
    point, slope = x.astype(np.float64), g.astype(np.float64)
    squares = np.sum(point * point, axis=axis, keepdims=True)
    along = np.sum(point * slope, axis=axis, keepdims=True) / np.where(squares > 0, squares, 1.0)
    if ball:
        along = np.where(np.sqrt(squares) >= 1 - tolerance, np.maximum(along, 0.0), 0.0)
    return slope - along * point


def _first_coordinate(x: Array, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    vector = np.zeros(x.shape[axis])
    vector[0] = 1.0
    return from_numpy(vector.reshape(shape), x)


def _checked_bound(bound: Any, name: str, forbidden: float) -> Array:
    """A bound the caller can no longer change, refused where it is no number or leaves nothing."""
    try:
        if np.iscomplexobj(host(bound)):  # whose imaginary part would be dropped
            raise TypeError
        values = host(bound).astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"Box: {name} must be a number or an array, got {bound!r}") from None
    if is_sparse(bound):
        raise TypeError(f"Box: {name} must be a number or a dense array, got a sparse one")
    if np.any(np.isnan(values)) or np.any(values == forbidden):
        raise ValueError(f"Box: {name} must not contain NaN or {forbidden}")
    if values.ndim == 0:
        return float(values)
    bound = copy(np.asarray(bound) if isinstance(bound, list | tuple) else bound)
    if isinstance(bound, np.ndarray):
        bound.setflags(write=False)
    return bound
