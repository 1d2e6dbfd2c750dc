"""The prox and the subdifferential of every separable term and of all their sums, in one formula."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tecu.arrays import Array, count_nonzero, from_numpy, host, inner, is_sparse, namespace, norm
from tecu.terms.base import (
    INFINITY,
    Entrywise,
    checked_step,
    finite,
    in_range,
    indicator,
    largest,
    on_entries,
    rounding,
    stored,
    through_dense,
    whole,
)


@dataclass(frozen=True)
class Separable:
    """``sum_i l0 [x_i != 0] + l1 |x_i| + l2/2 x_i^2`` on ``lower <= x <= upper``.

    Without ``l0`` the function is convex and its prox is shrink, scale, clip. With it, the only other
    candidate is 0, and the two are compared by value.
    """

    entry: Entrywise

    @cached_property
    def keeps_zero(self) -> bool:
        """Whether 0 lies within all bounds."""
        return bool(np.all(host(self.entry.lower) <= 0) and np.all(host(self.entry.upper) >= 0))

    @property
    def is_convex(self) -> bool:
        """Whether no entry is counted."""
        return self.entry.l0 == 0

    @property
    def has_array_bounds(self) -> bool:
        """Whether the bounds differ from entry to entry."""
        return np.ndim(self.entry.lower) > 0 or np.ndim(self.entry.upper) > 0

    def value(self, x: Array) -> float:
        """The function at ``x``."""
        entry, values = self.entry, stored(x)
        total = 0.0
        if entry.l0 > 0:
            total += entry.l0 * count_nonzero(values)
        if entry.l1 > 0:
            total += entry.l1 * float(np.sum(np.abs(values), dtype=np.float64))
        if entry.l2 > 0:
            total += 0.5 * entry.l2 * inner(values, values)
        return total + self.domain(x)

    def domain(self, x: Array) -> float:
        """0 within the bounds (up to rounding, relative to the bound where it is large), inf outside."""
        values = stored(x) if not self.has_array_bounds and self.keeps_zero else whole(x)
        tolerance = rounding(x)
        for bound, sign in ((self.entry.lower, -1.0), (self.entry.upper, 1.0)):
            if np.ndim(bound) == 0 and abs(bound) == INFINITY:
                continue
            edge = host(bound_like(bound, x)) if np.ndim(bound) else np.asarray(in_range(float(bound), x))
            beyond = values - edge if sign > 0 else edge - values
            if largest(beyond) <= 0.0:  # no entry is beyond the bound: the common case, without the scale's passes
                continue
            finite = np.where(np.isfinite(edge), np.abs(edge), 1.0)
            excess = largest(beyond / np.maximum(finite, 1.0))
            if indicator(excess, tolerance) > 0:
                return INFINITY
        return 0.0

    def prox(self, x: Array, step: float) -> Array:
        """Shrink, scale, clip; then 0 where that has the lower value."""
        step = checked_step(self, step)
        if is_sparse(x) and (self.has_array_bounds or not self.keeps_zero):
            return through_dense(lambda values: self._prox(values, step), x)
        return on_entries(lambda values: self._prox(values, step), x)

    def _prox(self, x: Array, step: float) -> Array:
        xp, entry = namespace(x), self.entry
        z = self.convex_prox(x, step)
        if entry.l0 == 0:
            return z
        drop = self.gain(x, z, step) <= in_range(entry.l0 * step, x)
        if not self.keeps_zero:
            lower, upper = bound_like(entry.lower, x), bound_like(entry.upper, x)
            drop = drop & (lower <= xp.zeros_like(x)) & (upper >= xp.zeros_like(x))
        return xp.where(drop, xp.zeros_like(z), z)

    def convex_prox(self, x: Array, step: float) -> Array:
        """The prox of everything but ``l0``, on a dense array."""
        entry, z = self.entry, x
        if entry.l1 > 0:
            z = soft(z, entry.l1 * step)
        if entry.l2 > 0:
            z = z / in_range(1 + entry.l2 * step, x)
        return clipped(z, entry.lower, entry.upper)

    def gain(self, x: Array, z: Array, step: float) -> Array:
        """``step`` times the convex part's gain: its prox objective at 0 less that at ``z``, its prox."""
        xp, entry = namespace(x), self.entry
        size, curvature, shift = xp.abs(z), 1 + entry.l2 * step, entry.l1 * step
        if max(curvature, shift) > 1.0:  # they may be out of range, and 0 times infinity is NaN
            curvature, shift = finite(curvature, x), finite(shift, x)
        with np.errstate(over="ignore", under="ignore"):
            slope = xp.abs(x) - size * (0.5 * curvature)
            return size * (slope - shift) if entry.l1 > 0 else size * slope

    def distances(self, x: Array, g: Array) -> np.ndarray[Any, Any]:
        """The distance of each entry of ``g`` to the limiting subdifferential at that entry of ``x``."""
        entry, values, slope = self.entry, whole(x).astype(np.float64), whole(g).astype(np.float64)
        low = high = entry.l2 * values + entry.l1 * np.sign(values)
        at_zero = values == 0
        if entry.l1 > 0:
            low, high = np.where(at_zero, -entry.l1, low), np.where(at_zero, entry.l1, high)
        if np.ndim(entry.lower) or entry.lower > -INFINITY:
            low = np.where(values <= host(bound_like(entry.lower, x)), -INFINITY, low)
        if np.ndim(entry.upper) or entry.upper < INFINITY:
            high = np.where(values >= host(bound_like(entry.upper, x)), INFINITY, high)
        away = np.maximum(np.maximum(low - slope, slope - high), 0.0)
        return np.where(at_zero, 0.0, away) if entry.l0 > 0 else away  # a jump at 0: every slope fits

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The distance of ``g`` to the limiting subdifferential at ``x``."""
        return norm(self.distances(x, g))


def soft(x: Array, threshold: float) -> Array:
    """``sign(x) max(|x| - threshold, 0)``."""
    threshold = in_range(threshold, x)
    return x - namespace(x).clip(x, -threshold, threshold)


def clipped(x: Array, lower: Array, upper: Array) -> Array:
    """``min(max(x, lower), upper)``; a new array even where nothing is out of bounds."""
    xp = namespace(x)
    if np.ndim(lower) == 0 and np.ndim(upper) == 0:
        low = None if lower == -INFINITY else in_range(float(lower), x)
        high = None if upper == INFINITY else in_range(float(upper), x)
        if low is None and high is None:
            return x + 0
        return xp.clip(x, low, high)
    return xp.minimum(xp.maximum(x, bound_like(lower, x)), bound_like(upper, x))


def bound_like(bound: Array, x: Array) -> Array:
    """A bound as an array of the kind and precision of ``x``, refused where its shape does not fit."""
    if type(bound) is np.ndarray and type(x) is np.ndarray and (bound.shape, bound.dtype) == (x.shape, x.dtype):
        return bound
    values = host(bound)
    shape = tuple(x.shape)
    try:
        fits = np.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Box: bounds of shape {values.shape} do not fit a block of shape {shape}")
    same_place = getattr(bound, "device", None) == getattr(x, "device", None)
    if type(bound) is type(x) and bound.dtype == x.dtype and same_place:
        return bound
    with np.errstate(over="ignore"):
        return from_numpy(values, x)
