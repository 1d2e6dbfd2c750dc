"""What counts as a number in the settings of updates, rules, solvers and estimators."""

from __future__ import annotations

import math
import numbers
from typing import Any


def is_number(x: Any) -> bool:
    """Whether ``x`` is a real number that a float can hold, perhaps an infinite one; ``True``, NaN, arrays are none."""
    if not isinstance(x, numbers.Real) or isinstance(x, bool):
        return False
    try:
        return not math.isnan(float(x))
    except OverflowError:
        return False


def is_whole(x: Any) -> bool:
    """Whether ``x`` is a whole number."""
    return isinstance(x, numbers.Integral) and not isinstance(x, bool)
