"""Tests of what a user or a strategy claims, made at the start, at the end and at a few random visits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.problem import Problem
from tecu.protocols import Restricted
from tecu.state import Check, ForeignState, State

TINY = float(np.finfo(np.float64).tiny)  # below it, values are rounded to whole denormal numbers
SHORTER = (1.0, 1 / 16, 1 / 256, 1 / 4096)  # steps, where the third derivative or H's domain spoils the first
AGREED = 0.25  # differences over two steps that are nearer to each other than this share of what they refute
STORED, OTHERS = 5_000, 500  # entries of a sparse block whose gradient is tested, at most
TELLING, CLEAR = 0.05, 0.01  # a difference whose noise hides the first share of it tells nothing; the second, little
SMALL = 2**18  # entries of a sparse block whose gradient is formed as a whole
AUDIT_EVERY = 25  # one visit in this many, at a random place: 4 %


def audit_due(seed: int, index: int) -> bool:
    """Whether visit ``index`` is one of the random ones to audit; a function of the seed alone, so that runs repeat."""
    group, place = divmod(index, AUDIT_EVERY)
    return _audited_place(seed, group) == place


@lru_cache(maxsize=64)
def _audited_place(seed: int, group: int) -> int:
    return int(np.random.default_rng((seed, 3, group)).integers(AUDIT_EVERY))


def require_value(problem: Problem, state: State) -> None:
    """Refuse to go on from a state whose objective is not what it was: its fingerprint does not see into functions."""
    value = other_value(problem, state)
    if value is not None:
        raise ForeignState(
            f"this state had the objective {state.value:.6g}, and this problem says {value:.6g}: it belongs to "
            "another problem; start anew from state.z"
        )


def other_value(problem: Problem, state: State) -> float | None:
    """The objective at the blocks of a state, if that is not what the state says, up to rounding; else ``None``."""
    z, value = state.z, problem.value(state.z)
    restricted = [problem.restrict(block, z) for block in problem.blocks]
    r = max(own.roundoff() for own in restricted)
    entries = max(math.prod(x.shape) for x in z.values())
    magnitude = restricted[0].magnitude(value)
    same = abs(value - state.value) <= math.sqrt(r) * abs(value) + 64 * r * math.sqrt(entries) * magnitude
    return None if same else value


def no_room(block: str, value: float, place: str) -> str:
    """What to say of a term that is not finite where it should be."""
    return (
        f"the term of block {block!r} is {value} at {place}; the value of a set has to leave room for rounding, "
        "32 sqrt(entries) units in the last place"
    )


def is_only_ours(problem: Problem, z: Mapping[str, Array]) -> bool:
    """Whether coupling and terms are those of this library, which stay as they are."""
    own_terms = all(type(term).__module__.startswith("tecu.") for term in problem.terms.values())
    return own_terms and not any(problem.restrict(block, z).rounds_unsaid() for block in z)


def gradient_tests(
    problem: Problem,
    z: Mapping[str, Array],
    value: float,
    seed: int,
    restrict: Callable[[str, Mapping[str, Array]], Restricted],
    *,
    at_start: bool,
) -> dict[str, Callable[[], Check]]:
    """One directional difference a block: ``(H(z + s v) - H(z - s v)) / 2s`` against ``<grad_b H, v>``.

    The tests are given as calls, by blocks, of which none needs another. ``value`` is ``H(z)``; ``restrict`` gives it
    as a function of one block, as the visits see it. The direction is half the gradient's own, so that the derivative
    is not lost in noise, half random, so that a gradient that is wrongly zero is seen. Of a user's own coupling there
    is a second difference along the random half alone: in a large block a few wrong entries do not show beside the
    gradient's own length. A Hessian is tested, too (of sparse blocks at the start only). At the start a gradient of the
    wrong shape, or one that is not finite, is refused.
    """
    name = f"the gradient test at the {'start' if at_start else 'end'}"
    numbers = {block: number for number, block in enumerate(z)}

    def test(block: str) -> Check:
        rng = np.random.default_rng((seed, 4, numbers[block]))
        return _check_gradient(problem, restrict(block, z), dict(z), value, block, rng, name, at_start)

    # The whole gradient of a dense block takes longer than some entries of a sparse one's: it is begun first.
    longest_first = sorted(z, key=lambda block: arrays.is_sparse(z[block]))
    return {block: partial(test, block) for block in longest_first}


def _check_gradient(
    problem: Problem,
    restricted: Restricted,
    z: dict[str, Array],
    value: float,
    block: str,
    rng: np.random.Generator,
    name: str,
    at_start: bool,
) -> Check:
    x = z[block]
    seen, gradient = _sparse_gradient(restricted, x, rng) if arrays.is_sparse(x) else restricted.value_and_grad(x)
    if tuple(gradient.shape) != tuple(x.shape):
        raise ValueError(
            f"block {block!r}: the coupling's gradient has shape {tuple(gradient.shape)}, "
            f"but the block has shape {tuple(x.shape)}"
        )
    if not arrays.all_finite(gradient):
        if at_start:
            raise ValueError(f"block {block!r}: the coupling's gradient at start has NaN or Inf")
        return Check(name, block, False, "the gradient has NaN or Inf")
    # which all values of H carry
    coarsest = max(restricted.roundoff(), *(arrays.unit_roundoff(other) for other in z.values()))
    scale = 64 * coarsest * math.sqrt(math.prod(x.shape))
    if not abs(seen - value) <= scale * max(restricted.magnitude(value), TINY):
        return Check(name, block, False, f"H is {value:.6g}, and {seen:.6g} as a function of the block alone")
    direction, noise = _directions(x, gradient, rng)
    compare = partial(_compare, problem, restricted, z, value, block, gradient, scale, name, at_start)
    found = compare(direction)
    if noise is None or not found.passed or found.untold or not restricted.rounds_unsaid():
        return found
    alone = compare(noise, fine=True)
    return found if alone.passed else alone


def _compare(
    problem: Problem,
    restricted: Restricted,
    z: dict[str, Array],
    value: float,
    block: str,
    gradient: Array,
    scale: float,
    name: str,
    at_start: bool,
    direction: Array,
    fine: bool = False,
) -> Check:
    """The derivative along ``direction`` by the gradient and by differences of ``H``, whose values round by ``scale``.

    A ``fine`` one takes four values: it is of fourth order and allows for a longer step, over which rounding is less.
    A gradient is refuted only by differences that have settled: over two steps, one a sixteenth of the other, they say
    the same. Of a smooth ``H`` with a sharp bend they do not until both steps are within it.
    """
    x = z[block]
    r, size = restricted.roundoff(), arrays.norm(direction)
    if size == 0.0 or not math.isfinite(size):
        return Check(name, block, True, "the block has no direction to test")
    claimed, difference, settled = arrays.inner(gradient, direction), math.nan, False
    quadratic = restricted.is_quadratic()
    fine = fine and not quadratic  # of a quadratic, differences over any step are exact
    length = 1.0 if quadratic else (2 * r) ** (1 / 5 if fine else 1 / 3)

    def values(s: float) -> list[float]:
        return [float(problem.coupling.value({**z, block: x + step * direction})) for step in (s, -s)]

    for shorter in SHORTER:
        s = shorter * length * (arrays.norm(x) or 1.0) / size
        up, down = values(s)
        farther = values(2 * s) if fine else [up, down]
        if not all(map(math.isfinite, (up, down, *farther))):
            continue  # out of H's domain
        earlier, difference = difference, (up - down) / (2 * s)
        if fine:
            difference += ((up - down) - 0.5 * (farther[0] - farther[1])) / (6 * s)
        largest = max(restricted.magnitude(seen) for seen in (up, down, *farther))
        noise = (1.5 if fine else 1.0) * scale * max(largest, TINY) / s
        # Rounding of z + s v moves it by r ||z||, against a slope that changes by the curvature along v.
        noise += 64 * r * arrays.norm(x) * (abs(up - 2 * value + down) / s / s + abs(claimed)) / size
        allowed = (2 * r) ** (1 / 4) * (abs(difference) + abs(claimed)) + noise
        larger = max(abs(claimed), abs(difference))
        told = not noise > 0.0 or TELLING * larger > noise
        if settled and (quadratic or noise > CLEAR * larger):
            difference = earlier
            break  # what longer steps have found wrong is not made good by noise
        if abs(difference - claimed) <= allowed:
            if not told:
                return Check(name, block, True, "the gradient is lost in the rounding of H", untold=True)
            # A start at zero may tell nothing of the Hessian: it is tested at the end, too, but where that is dear.
            if not at_start and (arrays.is_sparse(x) or arrays.is_elsewhere(x)):
                return Check(name, block, True, "the gradient agrees with differences of H")
            curved = (up - 2 * value + down) / s / s
            return _check_hessian(restricted, block, arrays.as_kind(direction, x), curved, 4 * noise / s, name)
        settled = abs(difference - earlier) <= AGREED * abs(difference - claimed) + noise
    if math.isnan(difference):
        return Check(name, block, True, "H is not finite close to the point", untold=True)
    if not settled:
        return Check(name, block, True, "H bends too sharply, or rounds too much, for differences to tell", untold=True)
    detail = f"the gradient says {claimed:.6g} along a direction, differences say {difference:.6g}"
    return Check(
        name, block, False, detail + (" of H, which is said to be quadratic in the block" if quadratic else "")
    )


def _check_hessian(
    restricted: Restricted, block: str, direction: Array, curved: float, noise: float, name: str
) -> Check:
    """``<v, hessian(v)>`` against the second difference of ``H`` along ``v``, where ``H`` is said to be quadratic."""
    if restricted.is_quadratic():
        claimed = arrays.inner(direction, restricted.hessian(direction))
        if not abs(claimed - curved) <= 1e-3 * abs(curved) + noise:
            detail = f"the hessian says {claimed:.6g} along a direction, differences say {curved:.6g}"
            return Check(name, block, False, detail)
    return Check(name, block, True, "the gradient agrees with differences of H")


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
