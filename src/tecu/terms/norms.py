"""Penalties: nothing, the number of non-zeros, norms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tecu.arrays import Array, copy, count_nonzero, host, inner, namespace, norm, pieces
from tecu.terms.base import (
    Addable,
    Entrywise,
    check_axis_of,
    checked_axis,
    checked_positive,
    checked_step,
    checked_weight,
    in_range,
    on_entries,
    slice_norms,
    stored,
    through_dense,
    whole,
)
from tecu.terms.separable import Separable, clipped, soft


@dataclass(frozen=True)
class Zero(Addable):
    """``0``; its prox is ``x`` itself.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.Zero().prox(np.array([1.0, -2.0]), step=1.0)
    array([ 1., -2.])
    """

    is_convex: ClassVar[bool] = True

    @property
    def entrywise(self) -> Entrywise:
        """The same function, entry by entry."""
        return Entrywise()

    def value(self, x: Array) -> float:
        """``0``."""
        return 0.0

    def prox(self, x: Array, step: float) -> Array:
        """A copy of ``x``."""
        checked_step(self, step)
        return copy(x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """``||g||``."""
        return norm(g)


@dataclass(frozen=True)
class L0(Addable):
    """``weight * (number of non-zeros)``; its prox keeps ``x`` where ``x^2 > 2 weight step``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.L0(0.5).prox(np.array([0.9, 3.0, -1.1]), step=1.0) + 0.0
    array([ 0. ,  3. , -1.1])
    """

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))

    @property
    def is_convex(self) -> bool:
        """Only with weight 0."""
        return self.weight == 0

    @property
    def entrywise(self) -> Entrywise:
        """The same function, entry by entry."""
        return Entrywise(l0=self.weight)

    def value(self, x: Array) -> float:
        """``weight * (number of non-zeros)``."""
        return self.weight * count_nonzero(stored(x))

    def prox(self, x: Array, step: float) -> Array:
        """``x`` where ``|x| > sqrt(2 weight step)``, else 0."""
        threshold = math.sqrt(2 * self.weight) * math.sqrt(checked_step(self, step))
        return on_entries(lambda values: hard(values, threshold), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` on the support of ``x``: at 0 every slope is a subgradient."""
        slope = whole(g)
        return norm(slope if self.weight == 0 else slope * (whole(x) != 0))


@dataclass(frozen=True)
class BoundedL0(Addable):
    """``weight * (number of non-zeros)`` on ``|x| <= bound``; its prox compares the clipped ``x`` with 0.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.BoundedL0(0.5, bound=2.0).prox(np.array([0.9, 3.0, -1.1]), step=1.0)
    array([ 0. ,  2. , -1.1])
    """

    weight: float
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))
        object.__setattr__(self, "bound", checked_positive(self, self.bound, "bound"))

    @property
    def is_convex(self) -> bool:
        """Only with weight 0."""
        return self.weight == 0

    @property
    def entrywise(self) -> Entrywise:
        """The same function, entry by entry."""
        return Entrywise(l0=self.weight, lower=-self.bound, upper=self.bound)

    def value(self, x: Array) -> float:
        """``weight * (number of non-zeros)``, inf where an entry is out of bounds."""
        return Separable(self.entrywise).value(x)

    def prox(self, x: Array, step: float) -> Array:
        """``z = clip(x)`` where ``|z| (|x| - |z|/2) > weight step``, else 0: again a threshold on ``|x|``."""
        step = checked_step(self, step)
        threshold = math.sqrt(2 * self.weight) * math.sqrt(step)
        if threshold > self.bound:  # then z is at the bound
            threshold = self.weight * step / self.bound + self.bound / 2
        return on_entries(lambda values: clipped(hard(values, threshold), -self.bound, self.bound), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` on the support, at the bound only of its part that points inwards."""
        return Separable(self.entrywise).subdiff_distance(x, g)


@dataclass(frozen=True)
class L1(Addable):
    """``weight * sum |x|``; its prox shrinks ``x`` by ``weight step``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.L1(1.0).prox(np.array([0.5, 3.0, -2.0]), step=1.0)
    array([ 0.,  2., -1.])
    """

    weight: float
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))

    @property
    def entrywise(self) -> Entrywise:
        """The same function, entry by entry."""
        return Entrywise(l1=self.weight)

    def value(self, x: Array) -> float:
        """``weight * sum |x|``."""
        return self.weight * _abs_sum(stored(x))

    def prox(self, x: Array, step: float) -> Array:
        """``sign(x) max(|x| - weight step, 0)``."""
        threshold = self.weight * checked_step(self, step)
        return on_entries(lambda values: soft(values, threshold), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The distance of ``g`` to ``weight sign(x)``, where ``sign(0) = [-1, 1]``."""
        return Separable(self.entrywise).subdiff_distance(x, g)


@dataclass(frozen=True)
class SquaredL2(Addable):
    """``weight/2 ||x||^2``; its prox is ``x / (1 + weight step)``. It can be added to any other term.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.SquaredL2(3.0).prox(np.array([4.0, -8.0]), step=1.0)
    array([ 1., -2.])
    """

    weight: float
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))

    @property
    def entrywise(self) -> Entrywise:
        """The same function, entry by entry."""
        return Entrywise(l2=self.weight)

    def value(self, x: Array) -> float:
        """``weight/2 ||x||^2``."""
        values = stored(x)
        return 0.5 * self.weight * inner(values, values)

    def prox(self, x: Array, step: float) -> Array:
        """``x / (1 + weight step)``."""
        scale = in_range(1 + self.weight * checked_step(self, step), x)
        return on_entries(lambda values: values / scale, x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """``||g - weight x||``."""
        return norm(whole(g) - self.weight * whole(x))


@dataclass(frozen=True)
class GroupL21(Addable):
    """``weight * sum over groups of ||x_group||``; its prox shrinks each group's norm by ``weight step``.

    A group is what lies along ``axis``: the columns of a matrix with ``axis=0``, its rows with ``axis=1``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.GroupL21(1.0, axis=0).prox(np.array([[6.0, 0.3], [8.0, 0.4]]), step=5.0)
    array([[3., 0.],
           [4., 0.]])
    """

    weight: float
    axis: int = 0
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))
        object.__setattr__(self, "axis", checked_axis(self, self.axis))

    def value(self, x: Array) -> float:
        """``weight * sum over groups of ||x_group||``."""
        check_axis_of(self, self.axis, x)
        _, norms, size = slice_norms(whole(x).astype(np.float64), self.axis)
        return self.weight * float(np.sum(norms * size))

    def prox(self, x: Array, step: float) -> Array:
        """``x_group max(1 - weight step / ||x_group||, 0)``."""
        check_axis_of(self, self.axis, x)
        threshold = self.weight * checked_step(self, step)
        return through_dense(lambda values: shrink_groups(values, threshold, self.axis), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The distance of ``g`` to ``weight x / ||x||``, the ball of radius ``weight`` at a zero group."""
        check_axis_of(self, self.axis, x)
        return norm(group_distances(whole(x), whole(g), self.weight, self.axis))


def hard(x: Array, threshold: float) -> Array:
    """``x`` where ``|x| > threshold``, else 0; NaN stays NaN, so that a diverged run is seen."""
    threshold = in_range(threshold, x)
    if isinstance(x, np.ndarray):
        out = np.abs(x)  # the one temporary, reused as mask and as result
        np.greater(out, threshold, out=out)
        return np.multiply(x, out, out=out)
    xp = namespace(x)
    return xp.where(xp.abs(x) <= threshold, xp.zeros_like(x), x)


def shrink_groups(x: Array, threshold: float, axis: int) -> Array:
    """Each group of ``x`` with its norm made smaller by ``threshold``, down to 0."""
    xp = namespace(x)
    _, norms, size = slice_norms(x, axis)
    threshold = in_range(threshold, x)
    with np.errstate(over="ignore"):
        length = norms * size
    dead = length <= threshold
    factor = 1 - threshold / xp.where(dead, xp.ones_like(length), length)
    return x * xp.where(dead, xp.zeros_like(factor), factor)


def group_distances(x: Array, g: Array, weight: float, axis: int) -> Array:
    """Per group, the distance of ``g`` to the subdifferential of ``weight ||x_group||`` (NumPy arrays)."""
    scaled, norms, _ = slice_norms(x.astype(np.float64), axis)
    slope = g.astype(np.float64)
    at_zero = norms == 0
    away = slope - weight * scaled / np.where(at_zero, 1.0, norms)
    _, outside, size = slice_norms(np.where(at_zero, slope, away), axis)
    return np.where(at_zero, np.maximum(outside * size - weight, 0.0), outside * size)


def _abs_sum(x: Array) -> float:
    """``sum |x|``, summed in float64, without a copy of the whole."""
    flat = host(x).ravel("K")
    return math.fsum(float(np.sum(np.abs(piece), dtype=np.float64)) for (piece,) in pieces(flat))
