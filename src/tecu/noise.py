"""How much a coupling rounds that does not say so, from its values alone: no claim has a say in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tecu import arrays
from tecu.protocols import ROUNDOFF, Blocks, Coupling

if TYPE_CHECKING:
    from tecu.subproblem import SubProblem

VISITS = frozenset(16**k for k in range(16))  # of a block, at which its coupling is measured
COARSE = 1e-12  # unit round-off: in float64 the sums of a visit are far from what its tests allow for
AT_MOST = 1e-5  # of H: rougher values are not those of float32
POINTS, ORDER = 12, 6
STEPS = (1 / 4, 3 / 8, 1 / 2)  # powers of the unit round-off: the first is the longest
MOST = 2 / 3  # r^MOST |H| is the most that passes for rounding: what jumps more is no function


def measure(sub: SubProblem, *, coarse: bool = True) -> bool:
    """Note of the block how much ``H`` rounds, where nobody says it; whether that was done, once a visit.

    :meth:`~tecu.SubProblem.value_slack` allows for it. Not only of a ``coarse`` one where that is asked for: ``H`` may
    be a small difference of large numbers in float64, too.
    """
    measured = sub.notes.get("noise_visit") == sub.visits
    if measured or (coarse and not sub.roundoff > COARSE) or not sub.smooth.rounds_unsaid():
        return False

    def value(z: Blocks) -> float:
        sub.counters.values += 1
        return float(sub.smooth.coupling.value(z))

    noise = value_noise(value, sub.others, np.random.default_rng((*sub.seed, 5)), sub.roundoff)
    sub.notes.update(noise=noise, noise_visit=sub.visits)
    return True


def doubt(coupling: Coupling, z: Blocks, said: float) -> str | None:
    """What may be wrong with the values of ``H`` where the tests of a run failed; ``None`` if nothing shows.

    ``said`` is the unit round-off that they are said to have.
    """
    value = coupling.value
    first, second = value(z), value(z)
    if first != second and not abs(first - second) <= AT_MOST * abs(first):
        return (
            f"at the same blocks H was {first:.9g} once and {second:.9g} another time: it has to be a function of the "
            "blocks that leaves them as they are, without random numbers (a network in training mode draws some)"
        )
    try:
        noise = value_noise(value, z, np.random.default_rng(5), ROUNDOFF["float32"])
    except Exception:  # a user's function may refuse points that are a tenth away: then nothing is said of it
        return None
    share = noise / abs(first) if first else 0.0
    if not max(COARSE, 1e3 * said) < share < AT_MOST:
        return None
    return (
        f"the values of H are rough, by {share:.1g} of themselves, as if they were computed in float32; if they are, "
        "say so, by computes_in='float32' of couplings.Functions or Autodiff or as an attribute of a coupling of your "
        "own, or start from float32 blocks"
    )


def value_noise(value: Callable[[Blocks], float], z: Blocks, rng: np.random.Generator, roundoff: float = 0.0) -> float:
    r"""The standard deviation of the rounding errors of ``H`` near ``z``; 0 where it cannot be told.

    ``H`` rounds like the blocks, or more coarsely: by a unit ``roundoff``.

    ``H`` at points of a short line through ``z``, differenced six times (Hamming's table, as in More and Wild 2011).
    Independent errors of deviation ``s`` become ones of ``sqrt(924) s``, and of ``sqrt(252) s`` if differenced five
    times. Of a smooth ``H`` powers of the step are left; where these are more, the two do not agree, and the step is
    too long. Entries move by a share of themselves: they keep their sign.
    """
    dense = {block: x for block, x in z.items() if not (arrays.is_sparse(x) or arrays.is_elsewhere(x))}
    if not dense:
        return 0.0
    r = max(roundoff, *(arrays.unit_roundoff(x) for x in dense.values()))
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
