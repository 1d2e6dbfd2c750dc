"""How much a coupling rounds that does not say so, from its values alone: no claim has a say in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu import arrays
from tecu.protocols import Blocks

if TYPE_CHECKING:
    from tecu.subproblem import SubProblem

VISITS = frozenset(16**k for k in range(16))  # of a block, at which its coupling is measured
COARSE = 1e-12  # unit round-off: in float64 the sums of a visit are far from what its tests allow for
POINTS, ORDER = 12, 6
STEPS = (1 / 4, 3 / 8, 1 / 2)  # powers of the unit round-off: the first is the longest
MOST = 2 / 3  # r^MOST |H| is the most that passes for rounding: what jumps more is no function


def measure(sub: SubProblem) -> bool:
    """Note of the block how much ``H`` rounds, where nobody says it; whether that was done, once a visit.

    :meth:`~tecu.SubProblem.value_slack` allows for it.
    """
    measured = sub.notes.get("noise_visit") == sub.visits
    if measured or not arrays.unit_roundoff(sub.previous) > COARSE or not sub.smooth.rounds_unsaid():
        return False

    def value(z: Blocks) -> float:
        sub.counters.values += 1
        return float(sub.smooth.coupling.value(z))

    noise = value_noise(value, sub.others, np.random.default_rng((*sub.seed, 5)))
    sub.notes.update(noise=noise, noise_visit=sub.visits)
    return True


def value_noise(value: Callable[[Blocks], float], z: Blocks, rng: np.random.Generator) -> float:
    r"""The standard deviation of the rounding errors of ``H`` near ``z``; 0 where it cannot be told.

    ``H`` at points of a short line through ``z``, differenced six times (Hamming's table, as in More and Wild 2011).
    Independent errors of deviation ``s`` become ones of ``sqrt(924) s``, and of ``sqrt(252) s`` if differenced five
    times. Of a smooth ``H`` powers of the step are left; where these are more, the two do not agree, and the step is
    too long. Entries move by a share of themselves: they keep their sign.
    """
    dense = {block: x for block, x in z.items() if not (arrays.is_sparse(x) or arrays.is_elsewhere(x))}
    if not dense:
        return 0.0
    r = max(arrays.unit_roundoff(x) for x in dense.values())
    signs = {block: rng.choice((-1.0, 1.0), size=tuple(x.shape)) for block, x in dense.items()}

    def value_at(share: float) -> float:
        moved = {block: x * arrays.from_numpy(1.0 + share * signs[block], x) for block, x in dense.items()}
        return value({**z, **moved})

    for power in STEPS:
        with np.errstate(all="ignore"):
            values = np.array([value_at(math.pow(r, power) * k) for k in range(-POINTS // 2, POINTS // 2)])
        size = abs(float(values[POINTS // 2]))  # at z itself
        if not (size > 0.0 and np.all(np.isfinite(values))):
            continue
        deviation = _deviation(values / size, ORDER)
        if deviation >= 0.25 * _deviation(values / size, ORDER - 1):
            return size * min(deviation, math.pow(r, MOST))
    return 0.0


def _deviation(values: np.ndarray[Any, Any], order: int) -> float:
    """That of the independent errors in some values, as their differences of some order show it."""
    return math.sqrt(float(np.mean(np.diff(values, order) ** 2)) / math.comb(2 * order, order))
