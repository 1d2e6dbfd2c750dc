"""At most ``k`` non-zeros in every row or column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tecu.arrays import Array, canonical, copy, is_sparse, namespace
from tecu.terms.base import (
    Addable,
    Entrywise,
    check_axis_of,
    checked_axis,
    checked_count,
    checked_step,
    indicator,
    whole,
    with_data,
)
from tecu.terms.separable import Separable


@dataclass(frozen=True)
class KSparse(Addable):
    """At most ``k`` non-zeros along ``axis``: in each row with ``axis=1``, in each column with ``axis=0``.

    Its prox keeps the ``k`` entries largest in size.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.KSparse(1).prox(np.array([[1.0, -2.0], [3.0, 0.5]]), step=1.0)
    array([[ 0., -2.],
           [ 3.,  0.]])
    """

    k: int
    axis: int = 1
    is_convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checked_count(self, self.k, "k"))
        object.__setattr__(self, "axis", checked_axis(self, self.axis))

    def value(self, x: Array) -> float:
        """0 where no row (column) has more than ``k`` non-zeros, else inf."""
        check_axis_of(self, self.axis, x)
        return indicator(float(np.max(_counts(x, self.axis), initial=0)), self.k)

    def prox(self, x: Array, step: float) -> Array:
        """The ``k`` entries largest in size along ``axis``; the others 0."""
        check_axis_of(self, self.axis, x)
        checked_step(self, step)
        if is_sparse(x):
            x = canonical(x)
            return keep_best_stored(x, x.data, np.abs(x.data), self.k, self.axis)
        return keep_best(x, namespace(x).abs(x), self.k, self.axis)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The norm of ``g`` on the support, with ``s`` entries, and on the ``k - s`` smallest others."""
        check_axis_of(self, self.axis, x)
        away = Separable(Entrywise()).distances(x, g)
        return k_sparse_distance(whole(x), away, self.k, self.axis)


def keep_best(values: Array, score: Array, k: int, axis: int) -> Array:
    """``values`` at the ``k`` highest scores along ``axis`` (never more, also with ties), else 0."""
    length = values.shape[axis]
    if k >= length:
        return copy(values)
    if isinstance(values, np.ndarray):
        best = np.take(np.argpartition(score, length - k, axis=axis), range(length - k, length), axis=axis)
        out = np.zeros_like(values)
        np.put_along_axis(out, best, np.take_along_axis(values, best, axis=axis), axis=axis)
        return out
    xp = namespace(values)
    order = xp.argsort(score, axis=axis, descending=True, stable=True)
    rank = xp.argsort(order, axis=axis, stable=True)
    return xp.where(rank < k, values, xp.zeros_like(values))


def keep_best_stored(x: Array, data: Any, score: Any, k: int, axis: int) -> Array:
    """:func:`keep_best` for a CSR array with the structure of ``x`` and the stored values ``data``."""
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    line = rows if axis % 2 == 1 else x.indices
    counts = np.bincount(line, minlength=x.shape[1 - axis % 2])
    data = data.copy()
    if np.max(counts, initial=0) > k:
        order = np.lexsort((-score, line))
        starts = np.cumsum(counts) - counts
        place = np.arange(order.size) - np.repeat(starts, counts)  # within its row or column
        data[order[place >= k]] = 0
    return with_data(x, data)


def k_sparse_distance(x: Any, distances: Any, k: int, axis: int) -> float:
    """The distance to the subdifferential of ``KSparse`` plus a separable term with these ``distances``.

    A subgradient must fit the separable term on some ``k`` entries that contain the support, and no others.
    """
    support = x != 0
    on_support = np.sum(np.where(support, distances, 0.0) ** 2)
    others = np.sort(np.where(support, 0.0, distances), axis=axis)  # the support's zeros come first
    best = np.take(others, range(min(k, others.shape[axis])), axis=axis)
    return float(np.sqrt(on_support + np.sum(best**2)))


def _counts(x: Array, axis: int) -> Any:
    if not is_sparse(x):
        return np.count_nonzero(whole(x), axis=axis)
    x = canonical(x)
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    line = rows if axis % 2 == 1 else x.indices
    return np.bincount(line[x.data != 0])
