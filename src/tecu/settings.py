"""What counts as a number in the settings of updates, rules and solvers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def is_number(x: Any) -> bool:
    """Whether ``x`` is a real number, perhaps an infinite one; ``True``, NaN and an array are none."""
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool) and not math.isnan(x)


def is_whole(x: Any) -> bool:
    """Whether ``x`` is a whole number."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)
