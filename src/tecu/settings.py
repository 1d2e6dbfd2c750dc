"""What counts as a number in the settings of updates, rules, solvers and estimators."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np


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


def plain(x: Any) -> Any:
    """A setting as Python's own float: one of NumPy's forces its precision on the numbers computed with it."""
    return float(x) if isinstance(x, np.floating) else x


def make_plain(settings: Any, *names: str) -> None:
    """The same for some fields of a frozen record."""
    for name in names:
        object.__setattr__(settings, name, plain(getattr(settings, name)))
