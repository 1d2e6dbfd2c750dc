"""The compiled loop that reads a bilateral grid of affine maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.kernels.words import Integer, SingleMatrix, Singles, SingleStack
from tecu.lowlight.classical.compiled import compiled

Plane = np.ndarray[Any, Any]


@compiled
def _slice_rows(
    picture: SingleStack, maps: SingleStack, rows: Integer, guide: SingleMatrix, out: SingleStack, own: Singles
) -> None:
    """``maps`` has the cells of all ``rows``, each by depth and by entry of the map; ``own`` is scratch for one map."""
    height, width = guide.shape
    columns, depth = maps.shape[0] // rows, maps.shape[1]
    for i in range(height):
        y = min(max((i + 0.5) / height * rows - 0.5, 0.0), rows - 1.0)
        top = min(int(y), rows - 2)
        down = np.float32(y - top)
        for j in range(width):
            x = min(max((j + 0.5) / width * columns - 0.5, 0.0), columns - 1.0)
            left = min(int(x), columns - 2)
            across = np.float32(x - left)
            z = min(max(guide[i, j] * depth - 0.5, 0.0), depth - 1.0)
            front = min(int(z), depth - 2)
            deep = np.float32(z - front)
            own[:] = 0.0
            for a in range(2):
                for b in range(2):
                    for c in range(2):
                        share = (
                            (down if a else np.float32(1.0) - down)
                            * (across if b else np.float32(1.0) - across)
                            * (deep if c else np.float32(1.0) - deep)
                        )
                        for k in range(12):
                            own[k] += share * maps[(top + a) * columns + left + b, front + c, k]
            red, green, blue = picture[i, j, 0], picture[i, j, 1], picture[i, j, 2]
            for c in range(3):
                out[i, j, c] = own[4 * c] * red + own[4 * c + 1] * green + own[4 * c + 2] * blue + own[4 * c + 3]


def slice_and_apply(picture: Plane, grid: Plane, guide: Plane) -> Plane:
    """``picture`` (``h x w x 3``) through the maps of ``grid`` (``12 x depth x rows x columns``) read at ``guide``."""
    picture, guide = np.ascontiguousarray(picture), np.ascontiguousarray(guide)
    entries, depth, rows, columns = grid.shape
    maps = np.ascontiguousarray(grid.transpose(2, 3, 1, 0)).reshape(rows * columns, depth, entries)
    out = np.empty_like(picture)
    _slice_rows(picture, maps, rows, guide, out, np.empty(entries, np.float32))
    return out
