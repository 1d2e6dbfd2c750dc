"""Sums of terms whose joint prox has a closed form, and a sentence for all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from tecu.arrays import Array, canonical, host, is_sparse, namespace, norm
from tecu.protocols import Term, entrywise_of, is_only
from tecu.terms.base import (
    INFINITY,
    Addable,
    Entrywise,
    check_axis_of,
    checked_step,
    in_range,
    on_entries,
    rounding,
    running_sum,
    slice_norms,
    through_dense,
    whole,
)
from tecu.terms.matrices import Stiefel
from tecu.terms.norms import GroupL21, shrink_groups
from tecu.terms.separable import Separable
from tecu.terms.sets import UnitColumns, UnitRows, to_unit, without_radial
from tecu.terms.sparsity import KSparse, k_sparse_distance, keep_best, keep_best_stored


@dataclass(frozen=True, init=False)
class Sum(Addable):
    """``a(x) + b(x) + ...``, written ``a + b``, for terms whose joint prox has a closed form.

    These are: any of ``Zero``, ``L0``, ``BoundedL0``, ``L1``, ``SquaredL2``, ``NonNegative`` and ``Box`` with
    each other; ``GroupL21``, ``UnitColumns`` and ``UnitRows`` with ``L1`` and ``NonNegative``; ``KSparse``
    with all of the first list (bounds must let 0 in); and ``SquaredL2`` with every term. Others are refused.

    >>> import numpy as np
    >>> from tecu import terms
    >>> (terms.L1(1.0) + terms.NonNegative()).prox(np.array([3.0, -3.0]), step=1.0)
    array([2., 0.])
    """

    parts: tuple[Term, ...]
    _rule: Any = field(repr=False, compare=False)

    def __init__(self, *terms: Term) -> None:
        parts: list[Term] = []
        for term in terms:
            if not isinstance(term, Term):
                raise TypeError(f"Sum: {term!r} is not a term, it lacks value, prox or is_convex")
            parts += term.parts if isinstance(term, Sum) and is_only(term, Sum) else [term]
        if not parts:
            raise ValueError("Sum: give at least one term")
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "_rule", _joint(tuple(parts)))
        if hasattr(self._rule, "subdiff_distance"):  # a user's own term may lack it, and then the sum does too
            object.__setattr__(self, "subdiff_distance", self._rule.subdiff_distance)

    @property
    def is_convex(self) -> bool:
        """Whether every part is."""
        return all(part.is_convex for part in self.parts)

    @property
    def entrywise(self) -> Entrywise | None:
        """The same function entry by entry, or ``None`` where a part is not separable."""
        return self._rule.entry if isinstance(self._rule, Separable) else None

    def value(self, x: Array) -> float:
        """The sum of the parts' values."""
        return sum(part.value(x) for part in self.parts)

    def prox(self, x: Array, step: float) -> Array:
        """A global minimiser of the sum plus ``||z - x||^2 / (2 step)``."""
        return self._rule.prox(x, checked_step(self, step))


@dataclass(frozen=True)
class _Ridge:
    """``term + weight/2 ||x||^2``: completing the square leaves the term's own prox at a scaled point."""

    term: Any
    weight: float

    def prox(self, x: Array, step: float) -> Array:
        scale = 1 + self.weight * step
        if in_range(scale, x) < INFINITY:
            return self.term.prox(on_entries(lambda values: values / scale, x), step / scale)
        shorter = 1 / (1 / step + self.weight)  # step / scale without what is out of range
        return self.term.prox(on_entries(lambda values: values * (shorter / step), x), shorter)


class _RidgeWithDistance(_Ridge):
    def subdiff_distance(self, x: Array, g: Array) -> float:
        return float(self.term.subdiff_distance(x, whole(g) - self.weight * whole(x)))


@dataclass(frozen=True)
class _ShrunkGroups:
    """``GroupL21 + L1 + NonNegative``: the entries shrink first, then the groups."""

    groups: GroupL21
    entries: Separable

    def prox(self, x: Array, step: float) -> Array:
        threshold, axis = self.groups.weight * step, self.groups.axis
        check_axis_of(self.groups, axis, x)
        return through_dense(lambda values: shrink_groups(self.entries.convex_prox(values, step), threshold, axis), x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        # In a zero group the entries' intervals take what they can of g, the ball of radius weight the rest.
        weight, axis = self.groups.weight, self.groups.axis
        scaled, norms, _ = slice_norms(whole(x).astype(np.float64), axis)
        empty = norms == 0
        away = self.entries.distances(x, whole(g) - weight * scaled / np.where(empty, 1.0, norms))
        length = np.sqrt(np.sum(away**2, axis=axis, keepdims=True))
        return norm(np.where(empty, np.maximum(length - weight, 0.0), length))


@dataclass(frozen=True)
class _ShrunkUnit:
    """Unit sphere or ball ``+ L1 + NonNegative``: shrink, then normalise.

    Where nothing is left after shrinking, the sphere's best point is the largest entry's coordinate vector.
    """

    unit: UnitColumns | UnitRows
    entries: Separable

    def prox(self, x: Array, step: float) -> Array:
        self.unit.check_shape(x)
        return through_dense(lambda values: self._prox(values, step), x)

    def _prox(self, x: Array, step: float) -> Array:
        xp, axis = namespace(x), self.unit.axis
        z = self.entries.convex_prox(x, step)
        if self.unit.ball:
            return to_unit(z, axis, ball=True)
        one_sided = self.entries.entry.lower == 0
        size = x if one_sided else xp.abs(x)
        highest = xp.where(size == xp.max(size, axis=axis, keepdims=True), xp.ones_like(x), xp.zeros_like(x))
        empty = xp.max(xp.abs(z), axis=axis, keepdims=True) == 0
        best = xp.where(running_sum(highest, axis) == 1, highest, xp.zeros_like(x))  # the first of equals
        signed = best if one_sided else xp.where(x < 0, -best, best)
        return to_unit(xp.where(empty, signed, z), axis, ball=False)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        # The radial part lives on the support, the entries' freedom off it: one after the other is exact.
        point, slope = whole(x), whole(g).astype(np.float64)
        support = np.where(point != 0, slope - self.entries.entry.l1 * np.sign(point), 0.0)
        radial = without_radial(point, support, self.unit.axis, self.unit.ball, rounding(x))
        return norm(np.where(point != 0, radial, self.entries.distances(x, g)))


@dataclass(frozen=True)
class _BestEntries:
    """``KSparse + a separable term``: every entry's best value, kept where it gains most over 0."""

    sparsity: KSparse
    entries: Separable

    def prox(self, x: Array, step: float) -> Array:
        k, axis = self.sparsity.k, self.sparsity.axis
        check_axis_of(self.sparsity, axis, x)
        if is_sparse(x) and not self.entries.has_array_bounds:
            x = canonical(x)
            data = self.entries.prox(x.data, step)
            return keep_best_stored(x, data, self.entries.gain(x.data, data, step), k, axis)

        def keep(values: Array) -> Array:
            z = self.entries.prox(values, step)  # 0 wherever the gain does not exceed l0, and then so is the gain
            return keep_best(z, self.entries.gain(values, z, step), k, axis)

        return through_dense(keep, x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        away = self.entries.distances(x, g)
        return k_sparse_distance(whole(x), away, self.sparsity.k, self.sparsity.axis)


def _joint(parts: tuple[Term, ...]) -> Any:
    """The rule for the prox of the sum of ``parts``."""
    others = [part for part in parts if entrywise_of(part) is None]
    entry = reduce(_add, (each for part in parts if (each := entrywise_of(part)) is not None), Entrywise())
    if not others:
        return Separable(entry)
    if len(others) > 1:
        raise _refusal(parts)
    rest = Separable(Entrywise(entry.l0, entry.l1, 0.0, entry.lower, entry.upper))
    rule = _pair(others[0], rest, parts)
    if entry.l2 == 0 or _has_one_length(others[0]):
        return rule
    return _RidgeWithDistance(rule, entry.l2) if hasattr(rule, "subdiff_distance") else _Ridge(rule, entry.l2)


def _has_one_length(term: Any) -> bool:
    """Whether all points of the domain are equally long: a square adds a constant, and takes nothing but precision."""
    return is_only(term, Stiefel) or (is_only(term, UnitColumns, UnitRows) and not term.ball)


def _pair(term: Any, rest: Separable, parts: tuple[Term, ...]) -> Any:
    """The rule for one term that is not separable and the separable rest (without its square)."""
    entry = rest.entry
    bounded = rest.has_array_bounds or entry.lower > -INFINITY or entry.upper < INFINITY
    if entry.l0 == 0 and entry.l1 == 0 and not bounded:
        return term
    if is_only(term, KSparse) and rest.keeps_zero:
        return _BestEntries(term, rest)
    one_sided = not rest.has_array_bounds and entry.lower == 0 and entry.upper == INFINITY
    if entry.l0 == 0 and (one_sided or not bounded):
        if is_only(term, GroupL21):
            return _ShrunkGroups(term, rest)
        if is_only(term, UnitColumns, UnitRows):
            return _ShrunkUnit(term, rest)
    raise _refusal(parts)


def _refusal(parts: tuple[Term, ...]) -> ValueError:
    names = " + ".join(type(part).__name__ for part in parts)
    return ValueError(
        f"Sum: {names} has no closed-form prox here; give one of them a block of its own, put a smooth one "
        "into the coupling, or pass your own term with value and prox"
    )


def _add(a: Entrywise, b: Entrywise) -> Entrywise:
    lower = _tighter(a.lower, b.lower, -INFINITY, np.maximum)
    upper = _tighter(a.upper, b.upper, INFINITY, np.minimum)
    try:
        empty = np.any(host(lower) > host(upper))
    except ValueError:
        raise ValueError("Sum: the bounds of its parts have shapes that do not fit each other") from None
    if empty:
        raise ValueError("Sum: no point satisfies the bounds of all parts, their intersection is empty")
    return Entrywise(a.l0 + b.l0, a.l1 + b.l1, a.l2 + b.l2, lower, upper)


def _tighter(a: Array, b: Array, free: float, choose: Any) -> Array:
    """The tighter of two bounds; one that binds nothing leaves the other as it is, whatever kind it has."""
    if np.ndim(a) == 0 and a == free:
        return b
    if np.ndim(b) == 0 and b == free:
        return a
    try:
        both = choose(host(a), host(b))
    except ValueError:
        raise ValueError("Sum: the bounds of its parts have shapes that do not fit each other") from None
    return float(both) if both.ndim == 0 else both
