r"""The slope of ``H`` along a line, from its values there, and what rounding has a say in it: measured, not guessed.

``H(z + t s v)`` at thirteen points ``t = -1, -5/6, ..., 1`` is fitted by ``c_0 + c_1 t + ... + c_5 t^5``. What the fit
leaves over is rounding, or a bend that no such polynomial follows: both make ``c_1`` uncertain, by a multiple of the
root mean square of what is left. So nothing has to be known of how ``H`` is summed. Less than the unit round-off of
``H`` is left by chance only: that much is always allowed for.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

HALF, DEGREE = 6, 5
PLACES = np.arange(-HALF, HALF + 1) / HALF
FIT = np.linalg.pinv(np.vander(PLACES, DEGREE + 1, increasing=True))
LEFT = PLACES.size - DEGREE - 1  # degrees of freedom
SPREAD = np.linalg.norm(FIT, axis=1)  # deviation of each coefficient for values of deviation 1
SURE = 8.0  # deviations that are allowed for: beyond them is one fit in ten thousand, and it takes two to refute
LONGER = 16.0  # times that the next line is longer, or shorter
LINES = 4  # of different lengths, at most
AGREED = 0.25  # slopes on two lines that are nearer to each other than this share of what they refute
TELLING = 0.05  # a slope whose noise hides this share of it tells nothing
STEPS_OF_A_STAIR = 2  # neighbours that are equal: then values are rounded to more than they differ by


class Line(NamedTuple):
    """What the values on a line of half length ``s`` say, with what rounding may be worth in each."""

    s: float
    slope: float
    slope_noise: float
    curvature: float
    curvature_noise: float


def fitted(value_at: Callable[[float], float], middle: float, s: float, roundoff: float) -> Line | None:
    """The line of half length ``s``, ``value_at(t)`` being ``H`` at a distance ``t``; ``None`` if it leaves the domain.

    Where values are stairs, ``H`` changing by less than it is rounded to, nothing is left over of equal ones, and
    nothing is known.

    >>> line = fitted(lambda t: math.exp(t), 1.0, 0.1, 2.0**-53)
    >>> round(line.slope, 6), round(line.curvature, 4), line.slope_noise < 1e-4
    (1.0, 1.0, True)
    """
    values = np.array([middle if t == 0.0 else value_at(float(t) * s) for t in PLACES])
    if not np.all(np.isfinite(values)):
        return None
    if np.count_nonzero(np.diff(values) == 0.0) >= STEPS_OF_A_STAIR:
        return Line(s, 0.0, math.inf, 0.0, math.inf)
    size = float(np.max(np.abs(values)))
    with np.errstate(under="ignore"):
        rises = (values - middle) / size
        found = FIT @ rises
        left = float(np.linalg.norm(rises - np.vander(PLACES, DEGREE + 1, increasing=True) @ found))
    noise = SURE * size * max(left / math.sqrt(LEFT), roundoff) * SPREAD
    slopes, curvatures = (size * found[1], noise[1]), (2.0 * size * found[2], 2.0 * noise[2])
    return Line(s, *(float(slope) / s for slope in slopes), *(float(curvature) / s / s for curvature in curvatures))


def lines(value_at: Callable[[float], float], middle: float, s: float, roundoff: float) -> Iterator[Line]:
    """Lines of several lengths, ``s`` first; then longer ones while these tell the slope better, else shorter ones."""
    best, factor, now = math.inf, LONGER, s
    for _ in range(LINES):
        line = fitted(value_at, middle, now, roundoff)
        if line is not None:
            yield line
        if line is None or (now > s and not line.slope_noise < best):
            factor, now = 1.0 / LONGER, min(now, s)
        else:
            best = line.slope_noise
        now *= factor * (LONGER if factor > 1.0 and math.isinf(best) else 1.0)  # of stairs, hundreds have to be climbed


class Verdict(enum.Enum):
    """What lines say of a slope that is claimed."""

    AGREES = "the slope agrees with values of H"
    REFUTED = "values of H say another slope"
    LOST = "the gradient is lost in the rounding of H"
    BENDS = "H bends too sharply, or rounds too much, for differences to tell"
    OUTSIDE = "H is not finite close to the point"


def judge(found: Iterable[Line], claimed: float, share: float, suspected: bool = False) -> tuple[Verdict, Line | None]:
    """Whether a slope that is ``claimed`` agrees with lines, up to a ``share`` of it; and the line that tells.

    Two lengths have to refute it, with one slope and, as far as that could explain what is wrong, one curvature: beside
    a kink, slopes agree at all lengths that reach over it, while curvatures do not. Of one that is ``suspected``
    already, the first line only has to tell that rounding is not the reason.
    """
    against: list[Line] = []
    verdict = Verdict.OUTSIDE
    for line in found:
        apart, larger = abs(line.slope - claimed), max(abs(line.slope), abs(claimed))
        if suspected and line.slope_noise < AGREED * apart:
            return Verdict.REFUTED, line
        suspected = False
        if apart <= share * (abs(line.slope) + abs(claimed)) + line.slope_noise:
            if TELLING * larger > line.slope_noise:
                return Verdict.AGREES, line
            verdict = Verdict.LOST if not against else Verdict.BENDS
            continue
        for other in against:
            bend = abs(other.curvature - line.curvature) * min(other.s, line.s)
            if max(abs(other.slope - line.slope), bend) <= AGREED * apart:
                return Verdict.REFUTED, line
        against.append(line)
        verdict = Verdict.BENDS
    return verdict, None
