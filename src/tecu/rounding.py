"""What it is worth, in the tests of a visit, that points lie where they should only to rounding."""

from __future__ import annotations

import math

from tecu import arrays
from tecu.problem import SubProblem
from tecu.protocols import Restricted

LONGEST_SUM = 16.0
"""How much rounding may add up in the prox of a set, such as the unit sphere, in units of the last place."""


def lean_on_set(sub: SubProblem) -> float:
    """What it is worth, along ``grad H(previous)``, that two points lie in the term's set only to rounding.

    The distance that is covered is what a term allows an entry, for all of them together.
    """
    return math.sqrt(math.prod(sub.previous.shape)) * _unit_lean(sub)


def lean_of_claim(sub: SubProblem) -> float:
    """The same for what a strategy says of two points, which are the same for whoever looks at them.

    Only a formula that takes them for points of a curved set may be off: where the term treats each entry by itself
    there is none.
    """
    return 0.0 if sub.treats_entries_alike else LONGEST_SUM * _unit_lean(sub)


def _unit_lean(sub: SubProblem) -> float:
    size = sub.size_of_previous() if sub.is_free else max(1.0, sub.size_of_previous())  # a set has a size of its own
    return 32.0 * arrays.unit_roundoff(sub.previous) * size * sub.known_slope()


def grain(sub: SubProblem, tau: float) -> float:
    """``tau (32 r ||previous||)^2``: what rounding of the points is worth where ``H`` is flat.

    It shows where ``H`` itself is next to nothing, at a solution that fits its data exactly.
    """
    hidden = 32.0 * sub.roundoff * sub.size_of_previous()
    return tau * hidden * hidden


def lean(sub: SubProblem) -> float:
    """``32 r ||grad H|| ||previous||``: what rounding of the points is worth along the slope, where nothing else tells.

    A prox by eigenvalues is off by twenty units in the last place and more. A coupling that knows the size of the
    numbers it sums (``magnitude``) needs no such guess.
    """
    if type(sub.smooth).magnitude is not Restricted.magnitude:
        return 0.0
    return 32.0 * sub.roundoff * sub.known_slope() * sub.size_of_previous()
