"""Numbers that formulas, tables and kernels have in common; kernels are compiled where nothing but NumPy is there."""

from __future__ import annotations

import numpy as np

DARKEST = 1.0 / 1024.0  # lower bound of I, so that 1 / I stays bounded on black
FRACTION = 9  # bits of the mantissa that the table of gains distinguishes: 0.1 % of the gain
LOWEST = int(np.float32(DARKEST).view(np.int32))
SHIFT = 23 - FRACTION
BITS = 16  # of a place in the table of the curve beyond its whole part
