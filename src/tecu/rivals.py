"""A prox against rivals: whether another point is a better minimiser of ``q(v) = term(v) + tau/2 ||v - x||^2``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import SubProblem
from tecu.protocols import Term, treats_entries_alike

ENTRIES = 2**16  # of a large block that are tried
SINGLE = 8  # entries that are changed one by one
LITTLE = 1e-3  # how far along a line the slope of a term is looked at


def beaten_prox(sub: SubProblem, x: Array, tau: float, point: Array, *, thorough: bool = True) -> str | None:
    """Whether a rival is better than ``point`` at ``q(v) = term(v) + tau/2 ||v - x||^2``; a sentence if so.

    Rivals lie on the lines from ``point`` towards ``x``, towards ``x`` on the support of ``point``, and towards zero;
    further there are the prox with half and twice the step, the proxes of points near ``x``, and ``point`` without its
    smaller entries or with a single one changed. A right prox is beaten by nothing. If not ``thorough``, one line drawn
    at random is tried. Of a large block with a term that says that it is a sum over entries, some entries will do. A
    block that lives elsewhere (:func:`tecu.arrays.is_elsewhere`) has no entries to look at: it is tried as a whole.
    """
    rivals = _Rivals(sub.term, *_some_entries(sub.term, x, point), tau)
    lines = rivals.lines()
    tried = [*lines, *rivals.elsewhere()] if thorough else [lines[int(sub.rng.integers(len(lines)))]]
    best = max((found for excesses in tried for found in excesses()), default=0.0)
    if best > 0.0:
        return f"the prox of block {sub.block!r} is not a minimiser: another point is better by {best:.3g}"
    return None


def _some_entries(term: Term, x: Array, point: Array) -> tuple[Array, Array]:
    """Both arrays, or every ``k``-th entry of them where the term is a sum over entries that are treated alike."""
    plain = type(x) is np.ndarray and type(point) is np.ndarray and point.flags.c_contiguous and x.flags.c_contiguous
    if not plain or point.size <= 2 * ENTRIES or not treats_entries_alike(term):
        return x, point
    every = point.size // ENTRIES | 1  # odd: not always the same columns
    return x.reshape(-1)[::every].copy(), point.reshape(-1)[::every].copy()


class _Rivals:
    """The rivals of one point, each with its excess: ``q(point) - q(rival)``, less what rounding explains."""

    def __init__(self, term: Term, x: Array, point: Array, tau: float) -> None:
        self.term, self.x, self.point, self.tau = term, x, point, tau
        self.value = float(term.value(point))
        self.r, self.shape = arrays.unit_roundoff(point), math.sqrt(math.prod(point.shape))
        self.past = x - point
        self.far, self.size = arrays.norm(self.past), arrays.norm(point)
        # Both points lie in a set, and x where it should be, only to rounding.
        self.lean = 32 * self.r * (self.shape * max(1.0, self.size) + self.size + self.far)
        self.has_entries = not arrays.is_elsewhere(point)
        self.is_dense = self.has_entries and not arrays.is_sparse(point)

    def lines(self) -> list[Callable[[], Iterator[float]]]:
        """The lines through ``point``: on its support, towards zero, and towards ``x``."""
        found: list[Callable[[], Iterator[float]]] = []
        if self.has_entries:
            found.append(lambda: self._on_line(arrays.on_support(self.past, self.point), LITTLE, -LITTLE))
        found.append(lambda: self._on_line(self.point, LITTLE, -LITTLE, -1.0))
        if self.is_dense:
            found.append(lambda: self._on_line(self.past, LITTLE, -LITTLE, 1.0))
        return found

    def elsewhere(self) -> list[Callable[[], Iterator[float]]]:
        """The rivals that lie on none of these lines."""
        if not self.is_dense:
            return [self._off_line]
        return [self._off_line, self._single_entries, self._without_single_entries, self._neighbours]

    def _excess(self, rival: Array, along: float, length: float) -> float:
        """That of a rival; ``along`` is ``<rival - point, x - point>``."""
        value = float(self.term.value(rival))
        if not math.isfinite(value):
            return -math.inf
        gain = self.value - value + self.tau * (along - 0.5 * length * length)
        slope = self.tau * (2 * self.far + length)
        rounding = slope * (self.lean + 8 * self.r * length)
        found = gain - rounding - 64 * self.r * self.shape * (abs(self.value) + abs(value))
        return found if found <= 0.0 else found - slope * self._stray(rival)

    def _stray(self, rival: Array) -> float:
        """How far a rival lies outside of its set if no entry is by more than a set lets it, ``32 r sqrt(size)``."""
        if not self.has_entries:
            return 0.0
        outside = rival - arrays.as_kind(self.term.prox(rival, self.r / self.tau), self.point)
        most = float(np.max(np.abs(arrays.host(outside)), initial=0.0))
        return arrays.norm(outside) if most <= 32 * self.r * self.shape * max(1.0, self.size) else 0.0

    def _on_line(self, direction: Array, *places: float) -> Iterator[float]:
        """The excesses at ``point + place * direction``, and where the slope seen there says that the minimum is."""
        length = arrays.norm(direction)
        if not 0.0 < length < math.inf:
            return
        along = arrays.inner(direction, self.past)
        for place in places:
            found = self._excess(self.point + place * direction, place * along, abs(place) * length)
            yield found
            # q(point + t d) is term - slope t + tau/2 t^2 ||d||^2 for small t
            slope = found / place + 0.5 * self.tau * place * length * length
            best = slope / self.tau / length / length
            if abs(place) < 1.0 and 0.0 < best / place < math.inf:
                yield self._excess(self.point + best * direction, best * along, abs(best) * length)

    def _off_line(self) -> Iterator[float]:
        """The prox with half and twice the step, and ``point`` without its smaller entries."""
        rivals = [arrays.as_kind(self.term.prox(self.x, step), self.point) for step in (0.5 / self.tau, 2.0 / self.tau)]
        if self.is_dense:
            large = np.abs(arrays.host(self.point)) >= self.size / self.shape
            rivals.append(self.point * arrays.from_numpy(large, self.point))
        for rival in rivals:
            apart = rival - self.point
            length = arrays.norm(apart)
            if length > 0.0:
                yield self._excess(rival, arrays.inner(apart, self.past), length)

    def _single_entries(self) -> Iterator[float]:
        """One entry after the other towards ``x``, those farthest from it first."""
        away = arrays.host(self.past)
        count = min(away.size, SINGLE if away.size <= ENTRIES else 2)
        for index in np.argpartition(np.abs(away).ravel(), away.size - count)[away.size - count :]:
            mask = np.zeros(away.shape)
            mask.ravel()[index] = 1.0
            yield from self._on_line(self.past * arrays.from_numpy(mask, self.point), LITTLE, 1.0)

    def _without_single_entries(self) -> Iterator[float]:
        """``point`` without one of its entries, the smallest first: what counts them may be better off."""
        values = arrays.host(self.point)
        stored = np.flatnonzero(values)
        count = min(stored.size, SINGLE if values.size <= ENTRIES else 2)
        if not count:
            return
        for index in stored[np.argpartition(np.abs(values.ravel()[stored]), count - 1)[:count]]:
            mask = np.zeros(values.shape)
            mask.ravel()[index] = -1.0
            yield from self._on_line(self.point * arrays.from_numpy(mask, self.point), 1.0)

    def _neighbours(self) -> Iterator[float]:
        """The prox of points near ``x``: all in the term's domain; for a convex term also points on the way there."""
        random = np.random.default_rng(0)
        for share in (1e-3, 0.03, 0.3, 0.3):
            noise = arrays.from_numpy(random.standard_normal(tuple(self.point.shape)), self.point)
            near = self.x + (share * (self.far + self.size) / self.shape) * noise
            apart = arrays.as_kind(self.term.prox(near, 1.0 / self.tau), self.point) - self.point
            yield from self._on_line(apart, 1.0, LITTLE) if self.term.is_convex else self._on_line(apart, 1.0)
