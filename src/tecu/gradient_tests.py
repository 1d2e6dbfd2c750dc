"""Tests of a user's gradients and Hessians against differences of ``H``, made at the start and at the end of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.kinks import find_jump
from tecu.noise import COARSE
from tecu.problem import Problem
from tecu.protocols import Restricted
from tecu.slopes import AGREED, TELLING, Verdict, judge, lines
from tecu.state import Check

TINY = float(np.finfo(np.float64).tiny)  # below it, values are rounded to whole denormal numbers
SHORTER = (1.0, 1 / 16, 1 / 256, 1 / 4096)  # steps, where the third derivative or H's domain spoils the first
STORED, OTHERS = 5_000, 500  # entries of a sparse block whose gradient is tested, at most
CLEAR = 0.01  # a difference whose noise hides this share of it tells little
SMALL = 2**18  # entries of a sparse block whose gradient is formed as a whole


def gradient_tests(
    problem: Problem,
    z: Mapping[str, Array],
    value: float,
    seed: int,
    restrict: Callable[[str, Mapping[str, Array]], Restricted],
    *,
    at_start: bool,
    before: Mapping[str, Array] | None = None,
) -> dict[str, Callable[[], Check]]:
    """One directional difference a block: ``(H(z + s v) - H(z - s v)) / 2s`` against ``<grad_b H, v>``.

    The tests are given as calls, by blocks, of which none needs another. ``value`` is ``H(z)``; ``restrict`` gives it
    as a function of one block, as the visits see it. The direction is half the gradient's own, so that the derivative
    is not lost in noise, half random, so that a gradient that is wrongly zero is seen. Of a user's own coupling there
    is a second difference along the random half alone: in a large block a few wrong entries do not show beside the
    gradient's own length. A Hessian is tested, too (of sparse blocks at the start only). At the start a gradient of the
    wrong shape, or one that is not finite, is refused. At the end a user's own gradient is looked at for jumps between
    each block and what it was ``before`` its last visit.
    """
    name = f"the gradient test at the {'start' if at_start else 'end'}"
    numbers = {block: number for number, block in enumerate(z)}

    def test(block: str) -> Check:
        rng = np.random.default_rng((seed, 4, numbers[block]))
        made = _Test(problem, restrict(block, z), dict(z), value, block, name, at_start)
        found = made.run(rng)
        return made.look_for_kink(before[block]) or found if found.passed and before and block in before else found

    # The whole gradient of a dense block takes longer than some entries of a sparse one's: it is begun first.
    longest_first = sorted(z, key=lambda block: arrays.is_sparse(z[block]))
    return {block: partial(test, block) for block in longest_first}


class _Difference(NamedTuple):
    """What the values of ``H`` on both sides of a point say of its slope along a direction."""

    slope: float
    curved: float  # the second difference, times the step squared
    largest: float  # the size of what was summed for the largest value


@dataclass(frozen=True)
class _Test:
    """The test of one block's gradient at ``z``, where ``H`` is ``value``."""

    problem: Problem
    restricted: Restricted
    z: dict[str, Array]
    value: float
    block: str
    name: str
    at_start: bool

    def _found(self, passed: bool, detail: str, *, untold: bool = False) -> Check:
        return Check(self.name, self.block, passed, detail, untold)

    @property
    def coarsest(self) -> float:
        """The unit round-off that all values of ``H`` carry: that of the coarsest block."""
        return max(self.restricted.roundoff(), *(arrays.unit_roundoff(other) for other in self.z.values()))

    @property
    def scale(self) -> float:
        """How much values of ``H`` round, relative to the size of what is summed."""
        return 64 * self.coarsest * math.sqrt(math.prod(self.z[self.block].shape))

    def run(self, rng: np.random.Generator) -> Check:
        """One or two directional differences."""
        block, restricted, x = self.block, self.restricted, self.z[self.block]
        seen, gradient = _sparse_gradient(restricted, x, rng) if arrays.is_sparse(x) else restricted.value_and_grad(x)
        if tuple(gradient.shape) != tuple(x.shape):
            raise ValueError(
                f"block {block!r}: the coupling's gradient has shape {tuple(gradient.shape)}, "
                f"but the block has shape {tuple(x.shape)}"
            )
        if not arrays.all_finite(gradient):
            if self.at_start:
                raise ValueError(f"block {block!r}: the coupling's gradient at start has NaN or Inf")
            return self._found(False, "the gradient has NaN or Inf")
        if not abs(seen - self.value) <= self.scale * max(restricted.magnitude(self.value), TINY):
            return self._found(False, f"H is {self.value:.6g}, and {seen:.6g} as a function of the block alone")
        direction, noise = _directions(x, gradient, rng)
        found = self._compare(gradient, direction)
        if noise is None or not found.passed or found.untold or not restricted.rounds_unsaid():
            return found
        alone = self._compare(gradient, noise, fine=True)
        return found if alone.passed else alone

    def _compare(self, gradient: Array, direction: Array, fine: bool = False) -> Check:
        """The derivative along ``direction`` by the gradient and by differences of ``H``.

        In float64 with room for the rounding of any sum of so many numbers. Where nobody says how ``H`` rounds and that
        is too much to tell anything, or too little for what ``H`` does (it may be a small difference of large numbers),
        rounding is measured on the way; in float32 from the first.
        """
        x, size = self.z[self.block], arrays.norm(direction)
        if size == 0.0 or not math.isfinite(size):
            return self._found(True, "the block has no direction to test")
        length = arrays.norm(x)  # a block next to nothing has no scale, as zero has none: shares of it would be zero
        claimed, unit = arrays.inner(gradient, direction), (length if length > arrays.least_divisor(x) else 1.0) / size
        measurable = self.restricted.rounds_unsaid() and not arrays.is_elsewhere(x)
        if measurable and self.coarsest > COARSE:
            outside = self._found(True, Verdict.OUTSIDE.value, untold=True)
            return self._by_lines(direction, claimed, self._length(fine=False) * unit, outside)
        found, s = self._by_differences(direction, claimed, unit, fine)
        if (found.passed and not found.untold) or not measurable:
            return found
        return self._by_lines(direction, claimed, s, found)

    def _length(self, fine: bool) -> float:
        """Of a step, as a share of the block: where rounding and the next derivative are worth the same."""
        if self.restricted.is_quadratic():
            return 1.0  # differences over any step are exact
        return math.pow(2 * self.coarsest, 1 / 5 if fine else 1 / 3)

    def _by_differences(self, direction: Array, claimed: float, unit: float, fine: bool) -> tuple[Check, float]:
        """The test by differences over steps that are given in multiples of a ``unit``, and the step that decided.

        A ``fine`` one takes four values: it is of fourth order and allows for a longer step, over which rounding is
        less. A gradient is refuted only by differences that have settled: over two steps, one a sixteenth of the
        other, they say the same. Of a smooth ``H`` with a sharp bend they do not until both steps are within it.
        """
        r, difference, settled = self.restricted.roundoff(), math.nan, False
        quadratic = self.restricted.is_quadratic()
        fine = fine and not quadratic
        length = self._length(fine)
        s = length * unit
        for shorter in SHORTER:
            last, s = s, shorter * length * unit
            seen = self._difference(direction, s, fine)
            if seen is None:
                continue  # out of H's domain
            earlier, difference = difference, seen.slope
            noise = (1.5 if fine else 1.0) * self.scale * max(seen.largest, TINY) / s
            # Rounding of z + s v moves it by a share r, against the slope and what the curvature along v adds to it.
            noise += 64 * r * (abs(seen.curved) / s / s * unit + abs(claimed) / (shorter * length))
            allowed = self._share * (abs(difference) + abs(claimed)) + noise
            larger = max(abs(claimed), abs(difference))
            told = not noise > 0.0 or TELLING * larger > noise
            if settled and (quadratic or noise > CLEAR * larger):
                difference, s = earlier, last
                break  # what longer steps have found wrong is not made good by noise
            if abs(difference - claimed) <= allowed:
                if not told:
                    return self._found(True, Verdict.LOST.value, untold=True), length * unit
                return self._check_hessian(direction, seen.curved / s / s, 4 * noise / s), s
            settled = abs(difference - earlier) <= AGREED * abs(difference - claimed) + noise
        if math.isnan(difference):
            return self._found(True, Verdict.OUTSIDE.value, untold=True), s
        if not settled:
            return self._found(True, Verdict.BENDS.value, untold=True), s
        return self._refuted(claimed, difference), s

    def _by_lines(self, direction: Array, claimed: float, s: float, found: Check) -> Check:
        """The test by lines (:mod:`tecu.slopes`), the first of half length ``s``; ``found`` where none can be drawn."""

        def value_at(t: float) -> float:
            moved = {**self.z, self.block: self.z[self.block] + t * direction}
            try:
                with np.errstate(all="ignore"):
                    return float(self.problem.coupling.value(moved))
            except Exception:  # a user's function may refuse points that are far away
                return math.nan

        drawn = lines(value_at, self.value, s, self.coarsest)
        verdict, line = judge(drawn, claimed, self._share, suspected=not found.passed)
        if line is None:
            return found if verdict is Verdict.OUTSIDE else self._found(True, verdict.value, untold=True)
        if verdict is Verdict.REFUTED:
            return self._refuted(claimed, line.slope) if found.passed else found
        return self._check_hessian(direction, line.curvature, line.curvature_noise)

    def look_for_kink(self, before: Array) -> Check | None:
        """The test that failed, if the gradient jumps on the way of the last move (:mod:`tecu.kinks`)."""
        x = self.z[self.block]
        if arrays.is_sparse(x) or arrays.is_elsewhere(x) or not self.restricted.rounds_unsaid():
            return None
        try:
            with np.errstate(all="ignore"):
                jump = find_jump(self.restricted.grad, before, x, self.restricted.roundoff())
        except Exception:  # a user's function may refuse points that are beyond the last move
            return None
        if jump is None:
            return None
        return self._found(
            False,
            f"the gradient jumps by {jump.size:.3g} between points that are {jump.apart:.3g} apart; the theorem needs "
            "a smooth H: put what has kinks (an absolute value, a norm, a maximum) into a term, or round them off",
        )

    @property
    def _share(self) -> float:
        """Of a slope: what rounding of the gradient, and of the points, may be worth."""
        return math.pow(2 * self.restricted.roundoff(), 1 / 4)

    def _refuted(self, claimed: float, difference: float) -> Check:
        detail = f"the gradient says {claimed:.6g} along a direction, differences say {difference:.6g}"
        if self.restricted.is_quadratic():
            detail += " of H, which is said to be quadratic in the block"
        return self._found(False, detail)

    def _difference(self, direction: Array, s: float, fine: bool) -> _Difference | None:
        """The central difference over a step, of fourth order if ``fine``; ``None`` where a value is not finite."""
        up, down = self._values(direction, s)
        farther = self._values(direction, 2 * s) if fine else [up, down]
        if not all(map(math.isfinite, (up, down, *farther))):
            return None
        slope = (up - down) / (2 * s)
        if fine:
            slope += ((up - down) - 0.5 * (farther[0] - farther[1])) / (6 * s)
        largest = max(self.restricted.magnitude(seen) for seen in (up, down, *farther))
        return _Difference(slope, up - 2 * self.value + down, largest)

    def _values(self, direction: Array, s: float) -> list[float]:
        x = self.z[self.block]
        return [float(self.problem.coupling.value({**self.z, self.block: x + step * direction})) for step in (s, -s)]

    def _check_hessian(self, direction: Array, curved: float, noise: float) -> Check:
        """``<v, hessian(v)>`` against the second difference of ``H`` along ``v``, if it is said to be quadratic.

        A start at zero may tell nothing of the Hessian: it is tested at the end, too, but where that is dear.
        """
        x = self.z[self.block]
        dear = not self.at_start and (arrays.is_sparse(x) or arrays.is_elsewhere(x))
        if not dear and self.restricted.is_quadratic():
            v = arrays.as_kind(direction, x)
            claimed = arrays.inner(v, self.restricted.hessian(v))
            if not abs(claimed - curved) <= 1e-3 * abs(curved) + noise:
                detail = f"the hessian says {claimed:.6g} along a direction, differences say {curved:.6g}"
                return self._found(False, detail)
        return self._found(True, "the gradient agrees with differences of H")


def _directions(x: Array, gradient: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
    """Half the gradient's own and half random; of a dense block the random half, too."""
    if arrays.is_elsewhere(x):
        return x.direction(gradient, rng), None
    size = arrays.norm(gradient)
    if arrays.is_sparse(x):
        entries = rng.standard_normal(gradient.nnz)
        entries /= np.linalg.norm(entries)
        if size > 0.0:
            entries += gradient.data / size
        return type(gradient)((entries.astype(x.dtype), gradient.indices, gradient.indptr), shape=x.shape), None
    signs = np.unpackbits(np.frombuffer(rng.bytes(math.prod(x.shape) // 8 + 1), np.uint8), count=math.prod(x.shape))
    noise = arrays.from_numpy((signs.reshape(tuple(x.shape)) - 0.5) * (2.0 / math.sqrt(math.prod(x.shape))), x)
    return (noise + gradient / size, noise) if size > 0.0 else (noise, None)


def _sparse_gradient(restricted: Restricted, x: Any, rng: np.random.Generator) -> tuple[float, Any]:
    """``H`` and the gradient at a CSR block, this in the stored entries (some, if there are many) and a few others."""
    from scipy.sparse import csr_array

    columns, stored = x.shape[1], np.arange(x.nnz)
    if x.nnz > STORED:
        stored = np.sort(rng.choice(x.nnz, STORED, replace=False, shuffle=False))
    row_of_stored = np.searchsorted(x.indptr, stored, side="right") - 1
    anywhere = rng.integers(x.shape[0] * columns, size=OTHERS)
    places = np.sort(np.concatenate([anywhere, row_of_stored * columns + x.indices[stored]]))
    rows, cols = np.divmod(places[np.diff(places, prepend=-1) > 0], columns)
    entries = restricted.grad_entries(x, rows, cols) if x.shape[0] * columns > SMALL else None
    if entries is None:
        value, gradient = restricted.value_and_grad(x)
        if tuple(gradient.shape) != tuple(x.shape) or not arrays.all_finite(gradient):
            return value, gradient
        entries = arrays.host(arrays.dense(gradient))[rows, cols]
    else:
        value = restricted.value(x)
    indptr = np.searchsorted(rows, np.arange(x.shape[0] + 1)).astype(x.indptr.dtype)
    return value, csr_array((np.asarray(entries, np.float64), cols.astype(x.indices.dtype), indptr), shape=x.shape)
