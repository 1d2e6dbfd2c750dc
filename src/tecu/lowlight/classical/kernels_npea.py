"""The compiled loop of the bright-pass filter."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.kernels.words import IndexMatrix, Integer, SingleMatrix
from tecu.lowlight.classical.compiled import compiled

Plane = np.ndarray[Any, Any]


@compiled
def _bright_means(
    value: SingleMatrix, level: IndexMatrix, table: SingleMatrix, radius: Integer, out: SingleMatrix
) -> None:
    height, width = value.shape
    for i in range(height):
        top, bottom = max(0, i - radius), min(height, i + radius + 1)
        for j in range(width):
            own = level[i, j]
            row = table[own]
            left, right = max(0, j - radius), min(width, j + radius + 1)
            total, weight = np.float32(0.0), np.float32(0.0)
            for y in range(top, bottom):
                for x in range(left, right):
                    other = level[y, x]
                    if other >= own:
                        w = row[other]
                        weight += w
                        total += w * value[y, x]
            out[i, j] = max(total / weight, value[i, j]) if weight > 0.0 else value[i, j]


def bright_means(value: Plane, level: Plane, table: Plane, radius: int) -> Plane:
    """The mean of the pixels around that are at least as bright, weighted by ``table[own level, their level]``."""
    value = np.ascontiguousarray(value)
    out = np.empty_like(value)
    _bright_means(value, level, table, radius, out)
    return out
