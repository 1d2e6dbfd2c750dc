r"""Whether a gradient jumps: ``||grad H(b) - grad H(a)||`` stays as large as it is, however near ``b`` comes to ``a``.

The theorem needs a gradient of ``H`` that is Lipschitz continuous. Next to a kink (of ``|x|``, ``max``, a norm that is
not squared) every other test passes: slopes are right wherever there are any, and ever shorter steps lower ``H``. So a
segment is halved and halved again. Of a smooth ``H`` each half has half of the difference; of a bend that was rounded
off so it is as soon as the segment is shorter than the bend. A jump stays in one of the halves, whole, down to points
that rounding hardly tells from each other; noise does not, it is in both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tecu import arrays
from tecu.arrays import Array

MOST, LITTLE = 0.75, 0.25  # of the difference, in one half and in the other: a jump is in one of them
SPREAD = 0.6  # of the difference: if neither half has more, H is smooth there, or jumps in too many places to tell
HALVINGS = 8  # in a row that a jump stays whole
AT_MOST = 60  # halvings: by then all entries are next to each other
SEEN = 1 / 64  # of the difference between far ends: less may be the stairs that rounding makes of a smooth gradient
BEYOND = 4.0  # times the last move
FAR = 2.0**-10  # of the block: farther away than that kinks are not looked for


class Jump(NamedTuple):
    """That the gradient changes by ``size`` between points that are ``apart``."""

    size: float
    apart: float


def find_jump(grad: Callable[[Array], Array], before: Array, z: Array, roundoff: float) -> Jump | None:
    """A jump of the gradient on the way of the last move, from ``before`` to ``z`` and beyond, near and farther away.

    A run that ends at a kink steps across it, or would with a longer step.

    >>> import numpy as np
    >>> find_jump(np.sign, np.array([0.1]), np.array([-0.2]), 2.0**-53).size
    2.0
    >>> find_jump(lambda x: x / np.sqrt(x * x + 1e-12), np.array([0.1]), np.array([-0.2]), 2.0**-53) is None
    True
    """
    move, size = z - before, arrays.distance(z, before)
    if not (size > 0.0 and math.isfinite(size)):
        return None
    least = 2.0**HALVINGS * roundoff * arrays.norm(z) / size
    near, far = max(1.0, least), FAR * arrays.norm(z) / size
    smallest = 0.0
    for stretch in (far, near) if far > BEYOND * near else (near,):
        a, b = z - move * stretch, z + move * (BEYOND * stretch)
        at_a, at_b = grad(a), grad(b)
        smallest = max(smallest, SEEN * arrays.distance(at_a, at_b), 2.0**HALVINGS * roundoff * arrays.norm(at_a))
        jump = _jump_between(grad, a, b, at_a, at_b, smallest)
        if jump is not None:
            return jump
    return None


def _jump_between(
    grad: Callable[[Array], Array], a: Array, b: Array, at_a: Array, at_b: Array, smallest: float
) -> Jump | None:
    """A jump between two points, of at least some size, found by halving the way."""
    whole, in_a_row, spread = arrays.distance(at_a, at_b), 0, 0
    for _ in range(AT_MOST):
        middle = a + 0.5 * (b - a)
        at_middle = grad(middle)
        left, right = arrays.distance(at_a, at_middle), arrays.distance(at_middle, at_b)
        if not (whole > smallest and math.isfinite(left + right)):
            return None
        if max(left, right) >= MOST * whole and min(left, right) <= LITTLE * whole:
            in_a_row, spread = in_a_row + 1, 0
        else:
            in_a_row, spread = 0, spread + 1 if max(left, right) < SPREAD * whole else 0
        if spread > 1:
            return None
        if left >= right:
            b, at_b, whole = middle, at_middle, left
        else:
            a, at_a, whole = middle, at_middle, right
    return Jump(whole, arrays.distance(a, b)) if in_a_row >= HALVINGS else None
