"""Compiled loops over all bytes of a picture: means of cells, and a fourth byte for each pixel."""

from __future__ import annotations

import numpy as np

from tecu.kernels.words import ByteMatrix, Bytes, Integer, Integers, Shorts, SingleStack
from tecu.lowlight.compiled import compiled, part


@compiled
def pad_rows(flat: ByteMatrix, out: ByteMatrix) -> None:
    """Three bytes a pixel to four; the fourth becomes 255."""
    for y in range(flat.shape[0]):
        row, wide = flat[y], out[y]
        for x in range(wide.size // 4):
            wide[4 * x], wide[4 * x + 1], wide[4 * x + 2] = row[3 * x], row[3 * x + 1], row[3 * x + 2]
            wide[4 * x + 3] = 255


@compiled
def cell_means(
    flat: ByteMatrix, down: Integers, across: Integers, step: Integer, channels: Integer, out: SingleStack, sums: Shorts
) -> None:
    """Means in [0, 1] of the cells that begin at rows ``down`` and columns ``across``, of every ``step``-th row.

    ``sums`` is scratch, as long as a row: of fewer than 20 rows or so.
    """
    apart = flat.shape[1] // across[-1]
    for i in range(out.shape[0]):
        sums[:] = 0
        count = 0
        for y in range(down[i], down[i + 1], step):
            _add_row(flat[y], sums)
            count += 1
        for j in range(out.shape[1]):
            share = np.float32(1.0) / np.float32(255 * count * (across[j + 1] - across[j]))
            for c in range(channels):
                total = np.uint32(0)
                for x in range(across[j], across[j + 1]):
                    total += sums[x * apart + c]
                out[i, j, c] = np.float32(total) * share


@part
def _add_row(row: Bytes, sums: Shorts) -> None:
    for x in range(row.size):
        sums[x] += np.uint16(row[x])
