"""The probability simplex in every column or row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tecu.arrays import Array, from_numpy, namespace, norm
from tecu.terms.base import (
    Addable,
    check_axis_of,
    checked_axis,
    checked_positive,
    checked_step,
    indicator,
    largest,
    rounding,
    running_sum,
    through_dense,
    whole,
)


@dataclass(frozen=True)
class Simplex(Addable):
    """``x >= 0`` and ``sum x = total`` along ``axis``: the columns of a matrix with ``axis=0``, rows with 1.

    With ``axis=None`` it is the sum of the whole block, such as that of a blur kernel.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.Simplex().prox(np.array([0.5, 1.0, -3.0]), step=1.0)
    array([0.25, 0.75, 0.  ])
    """

    axis: int | None = 0
    total: float = 1.0
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.axis is not None:
            object.__setattr__(self, "axis", checked_axis(self, self.axis))
        object.__setattr__(self, "total", checked_positive(self, self.total, "total"))

    def _check(self, x: Array) -> None:
        if self.axis is not None:
            check_axis_of(self, self.axis, x)

    def value(self, x: Array) -> float:
        """0 where both hold up to rounding, else inf."""
        self._check(x)
        values = whole(x)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.sum(values, axis=self.axis, dtype=np.float64)
        violation = np.maximum(largest(-values), largest(np.abs(sums - self.total)))
        return indicator(float(violation), rounding(x) * self.total)

    def prox(self, x: Array, step: float) -> Array:
        """``max(x - theta, 0)`` with the one ``theta`` that makes the sum right."""
        self._check(x)
        checked_step(self, step)
        return through_dense(self._nearest, x)

    def _nearest(self, values: Array) -> Array:
        if self.axis is not None:
            return _to_simplex(values, self.axis, self.total)
        return _to_simplex(values.reshape(-1), 0, self.total).reshape(tuple(values.shape))

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The distance of ``g`` to ``{v : v = c where x > 0, v <= c where x = 0}`` over all numbers ``c``."""
        self._check(x)
        inside, slope = whole(x) > 0, whole(g).astype(np.float64)
        active = inside | (slope > _mean_where(inside, slope, self.axis))
        while True:  # Newton's method for c: c rises, the active set shrinks, so it ends
            level = _mean_where(active, slope, self.axis)
            still = inside | (active & (slope > level))
            if np.array_equal(still, active):
                return norm(np.where(active, slope - level, 0.0))
            active = still


def _to_simplex(x: Array, axis: int, total: float) -> Array:
    xp = namespace(x)
    # A common shift changes nothing; below -total no entry can be positive. So no sum can overflow or cancel.
    with np.errstate(over="ignore", invalid="ignore"):
        y = xp.clip(x - xp.max(x, axis=axis, keepdims=True), -total, None) / total
    length = x.shape[axis]
    shape = [1] * x.ndim
    shape[axis] = length
    counts = from_numpy(np.arange(1.0, length + 1).reshape(shape), x)
    descending = xp.flip(xp.sort(y, axis=axis), axis=axis)
    theta = xp.max((running_sum(descending, axis) - 1) / counts, axis=axis, keepdims=True)
    z = xp.clip(y - theta, 0, None)
    count = xp.sum(xp.where(z > 0, xp.ones_like(z), xp.zeros_like(z)), axis=axis, keepdims=True)
    # The running sum has rounded; one Newton step brings theta back to full precision.
    theta = theta + (xp.sum(z, axis=axis, keepdims=True) - 1) / count
    return xp.clip(y - theta, 0, None) * total


def _mean_where(mask: Any, values: Any, axis: int | None) -> Any:
    count = np.maximum(np.sum(mask, axis=axis, keepdims=True), 1)
    return np.sum(np.where(mask, values, 0.0), axis=axis, keepdims=True) / count
