"""One call that puts a user's own term through the suite our terms pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tecu.arrays import (
    Array,
    all_finite,
    as_kind,
    copy,
    dense,
    distance,
    from_numpy,
    host,
    inner,
    is_sparse,
    norm,
    unit_roundoff,
)
from tecu.protocols import Term

STEPS = (0.03, 0.3, 1.0, 3.0, 30.0)
SCALES = (0.1, 1.0, 10.0)


def check_term(term: Any, x: Array, *, seed: int = 0, trials: int = 12, slack: float = 1.0) -> None:
    """Check that ``term`` keeps the promises of a term on arrays like ``x``; raise ``AssertionError`` if not.

    Checked: the value is a float; the prox keeps shape, precision and kind, leaves its input alone, gives the
    same answer twice, and lands in the domain; it is a *global* minimiser, judged by value against thousands
    of competitors; the laws of convexity hold if the term calls itself convex; a tiny step hardly moves a
    feasible point; ``subdiff_distance``, if there is one, agrees with the prox.

    Parameters
    ----------
    term
        An object with ``value(x)``, ``prox(x, step)`` and ``is_convex``.
    x
        An array of the kind, shape and size of entries that the term is meant for.
    seed, trials
        The arrays tried are ``x`` and ``trials`` random ones like it.
    slack
        A factor on the allowance for rounding errors.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import terms, testing
    >>> testing.check_term(terms.L1(0.3), np.array([1.0, -0.2, 0.5]))
    """
    assert isinstance(term, Term), f"{_name(term)} must have value(x), prox(x, step) and is_convex"
    assert isinstance(term.is_convex, bool | np.bool_), (
        f"{_name(term)}.is_convex must be True or False, got {term.is_convex!r}"
    )
    rng = np.random.default_rng(seed)
    points = [x, *(_random_like(x, rng, SCALES[trial % len(SCALES)]) for trial in range(trials))]
    previous = None
    for trial, point in enumerate(points):
        step = STEPS[trial % len(STEPS)] if trial else 1.0
        probe = _Probe(term, point, step, slack, rng)
        probe.check_output()
        probe.check_minimal()
        probe.check_tiny_step()
        if term.is_convex and previous is not None:
            probe.check_convex(previous)
        probe.check_subdifferential()
        previous = point


@dataclass
class _Probe:
    """The checks at one point ``x`` and one ``step``; ``p`` is the prox there."""

    term: Any
    x: Array
    step: float
    slack: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        before = copy(self.x)
        self.p = self.term.prox(self.x, self.step)
        assert _same(self.x, before), f"{self.prox} changed its input; it must return a new array"

    @property
    def prox(self) -> str:
        """What was called, for the messages."""
        return f"{_name(self.term)}.prox(x, step={self.step:g})"

    def value(self, z: Array) -> float:
        """The term at ``z``, checked to be a number."""
        value = self.term.value(z)
        name = f"{_name(self.term)}.value"
        assert isinstance(value, float), f"{name} must return a float, got {type(value)}"
        assert not math.isnan(value), f"{name} returned NaN for finite input"
        assert value > -math.inf, f"{name} returned -inf, so its prox cannot exist"
        return float(value)

    def check_output(self) -> None:
        """Shape, precision, kind, a finite array in the domain, twice the same."""
        p, x = self.p, self.x
        shape = tuple(getattr(p, "shape", ("no array",)))
        assert shape == tuple(x.shape), f"{self.prox} must keep the shape {tuple(x.shape)}, got {shape}"
        assert type(p) is type(x), f"{self.prox} must return a {type(x).__name__}, got a {type(p).__name__}"
        assert p.dtype == x.dtype, f"{self.prox} must keep the precision {x.dtype}, got {p.dtype}"
        assert all_finite(p), f"{self.prox} returned NaN or infinity for finite input"
        assert p is not x, f"{self.prox} must return a new array, not its input"
        if isinstance(p, np.ndarray):
            shared = np.may_share_memory(p, x)
            assert not shared, f"{self.prox} shares memory with its input; it must return a copy"
        again = self.term.prox(x, self.step)
        assert _same(p, again), f"{self.prox} gave two different answers for the same input"
        both = getattr(self.term, "prox_and_value", None)
        if both is not None:
            point, value = both(x, self.step)
            room = 64 * unit_roundoff(x) * math.sqrt(max(math.prod(x.shape), 1)) * (abs(self.value(p)) + norm(p))
            agree = _same(point, p) and abs(value - self.value(p)) <= self.slack * room
            assert agree, f"{_name(self.term)}.prox_and_value does not agree with prox and value"
        assert self.value(p) < math.inf, f"{self.prox} lies outside the domain: the value there is infinite"
        assert _same(p, again), f"{_name(self.term)}.value changed its input"

    def objective(self, z: Array) -> float:
        """``term(z) + ||z - x||^2 / (2 step)``."""
        return self.value(z) + distance(z, self.x) ** 2 / (2 * self.step)

    def allowance(self, z: Array) -> float:
        """What rounding may do to a comparison of the objective at ``p`` and at ``z``.

        Both may violate a constraint by ``32 u sqrt(size)`` an entry.
        """
        u, size = unit_roundoff(self.x), max(math.prod(self.x.shape), 1)
        far = distance(self.p, self.x)
        sizes = norm(self.p) + norm(z) + norm(self.x)
        values = abs(self.value(self.p)) + abs(self.value(z))
        bound = values + (far + distance(z, self.x)) * (sizes + math.sqrt(size)) / self.step
        return self.slack * 64 * u * math.sqrt(size) * bound

    def check_minimal(self) -> None:
        """No competitor has a lower objective."""
        best = self.objective(self.p)
        for label, z in self.competitors():
            rival = self.objective(z)
            if rival < best:
                assert rival >= best - self.allowance(z), (
                    f"{self.prox} is not a global minimiser of value(z) + ||z - x||^2 / (2 step): "
                    f"{label} has {rival:.12g}, the prox {best:.12g}"
                )

    def competitors(self) -> Iterator[tuple[str, Array]]:
        """Points that a wrong prox may lose to, most of them feasible for most terms."""
        x, p = self.x, self.p
        yield "x itself", x
        for step in STEPS:
            yield f"the prox with step {step:g}", self.term.prox(x, step)
        yield "the prox of -x", self.term.prox(-x, self.step)
        flat, start = _flat(x), _flat(p)
        reach = float(np.max(np.abs(flat), initial=1.0))
        for radius in (1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0):
            for origin, name in ((start, "the prox"), (flat, "x")):
                noise = radius * reach * self.rng.standard_normal(flat.size)
                yield f"a random point near {name}", self.like(origin + noise)
                yield (
                    f"the prox of a random point near {name}",
                    self.term.prox(self.like(origin + noise), self.step),
                )
        for factor in (-1.0, 0.0, 0.5, 0.9, 1.1, 2.0):
            yield f"{factor} times the prox", self.like(factor * start)
        yield from self.one_entry_changed(flat, start, reach)
        yield from self.supports(flat, start)

    def one_entry_changed(self, x: Any, p: Any, reach: float) -> Iterator[tuple[str, Array]]:
        """A grid in each coordinate (of at most 24), the others at the prox; and two entries exchanged."""
        chosen = self.rng.permutation(p.size)[:24]
        for index in chosen:
            grid = np.concatenate(
                [[0.0, x[index], -p[index]], p[index] + reach * np.linspace(-1.5, 1.5, 31), [1e-3 * p[index]]]
            )
            for entry in grid:
                changed = p.copy()
                changed[index] = entry
                yield f"the prox with entry {index} set to {entry:.6g}", self.like(changed)
        for first, second in pairwise(chosen):
            changed = p.copy()
            changed[first], changed[second] = p[second], p[first]
            yield f"the prox with entries {first} and {second} exchanged", self.like(changed)

    def supports(self, x: Any, p: Any) -> Iterator[tuple[str, Array]]:
        """``x`` and the prox on every support (up to 6 entries) or on random ones."""
        size = p.size
        if size <= 6:
            masks = [[bool(number >> bit & 1) for bit in range(size)] for number in range(2**size)]
        else:
            masks = [list(self.rng.random(size) < share) for share in (0.1, 0.3, 0.5, 0.7, 0.9) * 6]
        for mask in masks:
            yield "x on another support", self.like(np.where(mask, x, 0.0))
            yield "the prox on another support", self.like(np.where(mask, p, 0.0))
            yield "a mix of x and the prox", self.like(np.where(mask, x, p))

    def check_tiny_step(self) -> None:
        """From a feasible point, a step so small that moving does not pay must not move."""
        tiny = 1e-6 if unit_roundoff(self.x) < 1e-10 else 1e-3
        moved = self.term.prox(self.p, tiny)
        fall = max(self.value(self.p) - self.value(moved), 0.0)
        size = math.sqrt(max(math.prod(self.x.shape), 1))
        dust = self.slack * 256 * unit_roundoff(self.x) * size * (1 + norm(self.p) + abs(self.value(self.p)))
        limit = math.sqrt(2 * tiny * (fall + dust)) + dust
        gone = distance(moved, self.p)
        assert gone <= limit, (
            f"{_name(self.term)}.prox(z, step={tiny:g}) moves the feasible z by {gone:.6g}, though the value "
            f"falls by {fall:.6g} only; a move of at most {limit:.6g} would pay"
        )

    def check_convex(self, other: Array) -> None:
        """The laws of a convex term: the mean of two points is no higher, the prox is firmly non-expansive.

        The second is ``||p - q||^2 <= <p - q, x - y>``.
        """
        flat = _flat(self.x)
        near = [flat + radius * self.rng.standard_normal(flat.size) for radius in (1e-3, 0.03, 0.3)]
        size = math.sqrt(max(flat.size, 1))
        for y in (other, *(self.like(point) for point in near)):
            q = self.term.prox(y, self.step)
            mean = (self.value(self.p) + self.value(q)) / 2
            middle = self.value(self.like((_flat(self.p) + _flat(q)) / 2))
            room = self.slack * 64 * unit_roundoff(self.x) * size
            assert middle <= mean + room * (1 + abs(mean)), (
                f"{_name(self.term)} calls itself convex, but its value half-way between two points is {middle:.6g}, "
                f"the mean of their values {mean:.6g}"
            )
            shift, gap = dense(self.p) - dense(q), dense(self.x) - dense(y)
            square, product = inner(shift, shift), inner(shift, gap)
            sizes = norm(self.x) + norm(y) + norm(self.p) + norm(q) + 1
            assert square <= product + room * sizes**2, (
                f"{_name(self.term)} calls itself convex, but its prox is not firmly non-expansive: "
                f"||p - q||^2 = {square:.6g} exceeds <p - q, x - y> = {product:.6g}"
            )

    def check_subdifferential(self) -> None:
        """``(x - p) / step`` is a subgradient at ``p``; a distance changes no faster than its argument."""
        measure = getattr(self.term, "subdiff_distance", None)
        if measure is None:
            return
        u, size = unit_roundoff(self.x), math.sqrt(max(math.prod(self.x.shape), 1))
        pull = (dense(self.x) - dense(self.p)) / self.step
        sizes = (norm(self.x) + norm(self.p)) / self.step + norm(self.p) + abs(self.value(self.p)) + 1
        room = self.slack * 256 * u * size * sizes
        name = f"{_name(self.term)}.subdiff_distance"
        away = self.distance_of(measure, pull)
        assert away <= room, (
            f"{name}(p, (x - p) / step) must be 0 for p = prox(x, step), which minimises; got {away:.6g}"
        )
        for _ in range(3):
            noise = self.rng.standard_normal(tuple(self.x.shape)) * (norm(pull) / size + 0.1)
            shifted = pull + from_numpy(noise, pull)
            moved, shift = self.distance_of(measure, shifted), norm(noise)
            assert moved <= shift + room, (
                f"{name} grew by {moved:.6g} while its argument moved by {shift:.6g} only; a distance cannot"
            )
            if self.term.is_convex and moved <= room:
                back = self.term.prox(as_kind(dense(self.p) + self.step * shifted, self.x), self.step)
                assert distance(back, self.p) <= 2 * self.step * room + room, (
                    f"{name}(p, g) = {moved:.6g} says that g is a subgradient at p, but prox(p + step g, step) is not p"
                )

    def distance_of(self, measure: Any, g: Array) -> float:
        """``measure(p, g)``, checked to be a number that leaves both alone."""
        before, slope = copy(self.p), copy(g)
        away = measure(self.p, g)
        name = f"{_name(self.term)}.subdiff_distance"
        assert isinstance(away, float), f"{name} must return a float, got {type(away)}"
        assert 0 <= away < math.inf, f"{name} must be a finite number >= 0 at a feasible point, got {away}"
        untouched = _same(self.p, before) and _same(g, slope)
        assert untouched, f"{name} changed its input"
        return float(away)

    def like(self, flat: Any) -> Array:
        """A flat NumPy array as an array like ``x``."""
        return _like(flat.reshape(tuple(self.x.shape)), self.x)


def _flat(x: Array) -> Any:
    """All entries of ``x``, flat, as float64."""
    return host(dense(x)).astype(np.float64).ravel()


def _like(values: Any, x: Array) -> Array:
    return as_kind(values, x) if is_sparse(x) else from_numpy(values, x)


def _random_like(x: Array, rng: np.random.Generator, scale: float) -> Array:
    """A random array about ``scale`` times as large as ``x``, of its kind, a third of it zeros for CSR."""
    shape = tuple(x.shape)
    size = norm(x) / math.sqrt(max(math.prod(shape), 1)) or 1.0
    values = rng.standard_normal(shape) * size * scale
    if is_sparse(x):
        values[rng.random(shape) < 1 / 3] = 0.0
        return as_kind(values, x)
    return _like(values, x)


def _same(x: Array, y: Array) -> bool:
    return np.array_equal(host(dense(x)), host(dense(y)))


def _name(term: object) -> str:
    return type(term).__name__
