"""The compiled twin of :func:`tecu.lowlight.denoise.smoothed`: tone and smoothing of a tile in one stream of rows.

A row of pixels goes through all stages a few rows behind the one before it, so that only some twenty rows of each stage
exist, in rings, and stay in the processor's cache: tone, luma; slope and offset of the luma's guided filter, two rows
later; the clean luma, two more; its cells of 2 x 2 with the colour differences; slopes and offsets of the colours, two
rows of cells later; their means, two more; the result. Wide tiles are better: a call for a row costs some microseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.kernels.words import (
    Integer,
    Integers,
    LevelMatrix,
    Levels,
    LevelStack,
    NaturalMatrix,
    ShortMatrix,
    Single,
    SingleMatrix,
    Singles,
    SingleStack,
)
from tecu.lowlight.compiled import compiled, part, scratch
from tecu.lowlight.denoise import COLOUR_FACTOR, EPS_FLOOR, LUMA_FACTOR, MARGIN
from tecu.lowlight.kernels_rows import (
    along_row,
    colour_fit,
    double_row,
    down_products,
    down_row,
    down_squares,
    half_difference,
    halve_row,
    line_row,
    luma_fit,
    luma_row,
    mix_green,
    mix_grey,
    mix_red_or_blue,
    scaled_row,
)
from tecu.lowlight.kernels_tone import around, join, tone_row, widen

Pixels = np.ndarray[Any, Any]

RING, SHORT = 24, 16  # rows that are kept: from the tone to the result, and from one stage to the next


def factors() -> Pixels:
    """The numbers of the filters."""
    return np.array([LUMA_FACTOR, COLOUR_FACTOR, EPS_FLOOR], dtype=np.float32)


@part
def _near(y: Integer, count: Integer, ring: Integer) -> tuple[Integer, ...]:
    """The places in a ring of the five rows around ``y``, kept inside the picture."""
    last = count - 1
    return (
        max(y - 2, 0) % ring,
        max(y - 1, 0) % ring,
        y % ring,
        min(y + 1, last) % ring,
        min(y + 2, last) % ring,
    )


@part
def _between(
    plane: SingleMatrix,
    y: Integer,
    top: Integers,
    down: Singles,
    left: Integers,
    across: Singles,
    lines: SingleMatrix,
    known: Integer,
    out: Singles,
) -> Integer:
    """A row of a map on the grid at the pixels; returns the line of the grid that ``lines`` begin with."""
    upper, part = top[y], down[y]
    if upper != known:
        widen(plane[upper], left, across, lines[0])
        widen(plane[min(upper + 1, plane.shape[0] - 1)], left, across, lines[1])
    one, other = lines[0], lines[1]
    for x in range(out.size):
        out[x] = one[x] + part * (other[x] - one[x])
    return upper


@part
def _fit_luma(
    y: Integer,
    rows: Integer,
    luma: SingleMatrix,
    noise: Singles,
    fits: SingleStack,
    sums: SingleMatrix,
    factors: Singles,
) -> None:
    a, b, c, d, e = _near(y, rows, SHORT)
    down_squares(luma[a], luma[b], luma[c], luma[d], luma[e], sums[0], sums[1])
    k = y % SHORT
    luma_fit(sums[0], sums[1], noise, factors[0], factors[2], fits[0, k], fits[1, k])


@part
def _clean_luma(
    y: Integer, rows: Integer, luma: SingleMatrix, clean: SingleMatrix, fits: SingleStack, sums: SingleMatrix
) -> None:
    a, b, c, d, e = _near(y, rows, SHORT)
    for k in range(2):
        down_row(fits[k, a], fits[k, b], fits[k, c], fits[k, d], fits[k, e], sums[k])
    line_row(sums[0], sums[1], luma[y % SHORT], clean[y % RING])


@part
def _make_cells(
    y: Integer,
    rows: Integer,
    planes: LevelStack,
    luma: SingleMatrix,
    clean: SingleMatrix,
    cells: SingleStack,
    grey: Singles,
    scale: Single,
) -> None:
    """A row of cells: the guide, red and blue minus luma."""
    upper, lower, k = 2 * y % RING, min(2 * y + 1, rows - 1) % RING, y % SHORT
    halve_row(luma[2 * y % SHORT], luma[min(2 * y + 1, rows - 1) % SHORT], grey)
    halve_row(clean[upper], clean[lower], cells[0, k])
    half_difference(planes[upper, 0], planes[lower, 0], grey, cells[1, k], scale)
    half_difference(planes[upper, 2], planes[lower, 2], grey, cells[2, k], scale)


@part
def _fit_colours(
    y: Integer,
    rows: Integer,
    cells: SingleStack,
    noise: Singles,
    fits: SingleStack,
    sums: SingleMatrix,
    factors: Singles,
) -> None:
    a, b, c, d, e = _near(y, rows, SHORT)
    guide, k = cells[0], y % SHORT
    down_squares(guide[a], guide[b], guide[c], guide[d], guide[e], sums[0], sums[1])
    for n in range(2):
        plane = cells[1 + n]
        down_products(
            plane[a], plane[b], plane[c], plane[d], plane[e],
            guide[a], guide[b], guide[c], guide[d], guide[e], sums[2], sums[3],
        )  # fmt: skip
        colour_fit(
            sums[0], sums[1], sums[2], sums[3], noise, factors[1], factors[2], fits[2 * n, k], fits[2 * n + 1, k]
        )


@part
def _average_fits(y: Integer, rows: Integer, fits: SingleStack, means: SingleStack, sums: SingleMatrix) -> None:
    a, b, c, d, e = _near(y, rows, SHORT)
    for n in range(4):
        down_row(fits[n, a], fits[n, b], fits[n, c], fits[n, d], fits[n, e], sums[0])
        along_row(sums[0], means[n, y % SHORT])


@part
def _result(
    y: Integer,
    cell_rows: Integer,
    planes: LevelStack,
    clean: SingleMatrix,
    means: SingleStack,
    wide: SingleMatrix,
    blend: Singles,
    share: Singles,
    unit: Single,
) -> None:
    own = y // 2
    other = min(max(own - 1 + y % 2 * 2, 0), cell_rows - 1)
    for n in range(4):
        double_row(means[n, own % SHORT], means[n, other % SHORT], blend, wide[n])
    row = planes[y % RING]
    guide = clean[y % RING]
    mix_red_or_blue(row[0], guide, wide[0], wide[1], share, unit)
    mix_green(row[1], guide, wide[0], wide[1], wide[2], wide[3], share, unit)
    mix_red_or_blue(row[2], guide, wide[2], wide[3], share, unit)


@compiled
def smooth_tile(
    flat: LevelMatrix,
    out: LevelMatrix,
    tile: Integers,
    noise: SingleMatrix,
    share: SingleMatrix,
    slope: SingleMatrix,
    offset: SingleMatrix,
    top: Integers,
    down: Singles,
    left: Integers,
    across: Singles,
    gain: Singles,
    table: Levels,
    numbers: Singles,
    factors: Singles,
    planes: LevelStack,
    places: ShortMatrix,
    ints: NaturalMatrix,
    lines: SingleMatrix,
    rings: SingleStack,
    sums: SingleMatrix,
    cell_rings: SingleStack,
    cell_sums: SingleMatrix,
) -> None:
    """The result of a tile: rows ``tile[0]`` to ``tile[1]``, columns ``tile[2]`` to ``tile[3]``, even at the start.

    The filters look at a margin around it. What follows ``factors`` is scratch, by :func:`room_to_smooth`.
    """
    first, last = max(tile[0] - MARGIN, 0), min(tile[1] + MARGIN, flat.shape[0])
    start, stop = max(tile[2] - MARGIN, 0), min(tile[3] + MARGIN, left.size)
    channels = flat.shape[1] // left.size
    rgb = channels > 1
    source, target = slice(channels * start, channels * stop), slice(channels * tile[2], channels * tile[3])
    inner, left, across = slice(tile[2] - start, tile[3] - start), left[start:stop], across[start:stop]
    rows, cell_rows = last - first, (last - first + 1) // 2
    unit = np.float32(np.float32(1.0) / numbers[0])

    v = planes[RING, 0]
    floats, wide, shares, clean = lines[8:14], lines[14:18], lines[18], lines[19:]
    fits, luma, noises = rings[:2], rings[2], rings[3]
    cells, colour_fits, means, grey = cell_rings[:3], cell_rings[3:7], cell_rings[7:11], cell_rings[11, 0]
    blend = cell_sums[4]

    toned = louder = shared = -1  # lines of the grid that are at hand
    fitted = cleaned = made = coloured = averaged = done = 0  # rows behind which a stage is complete
    for y in range(rows):
        toned = around(slope, offset, top[first + y], left, across, lines, toned)
        row = planes[y % RING]
        tone_row(flat[first + y, source], row, v, lines, down[first + y], gain, table, numbers, floats, ints, places)
        if rgb:
            luma_row(row[0], row[1], row[2], numbers[0], luma[y % SHORT])
        else:
            scaled_row(row[0], numbers[0], luma[y % SHORT])
        while fitted < rows and (fitted + 2 <= y or y == rows - 1):
            level = noises[fitted % SHORT]
            louder = _between(noise, first + fitted, top, down, left, across, lines[4:6], louder, level)
            _fit_luma(fitted, rows, luma, level, fits, sums, factors)
            fitted += 1
        while cleaned < rows and (cleaned + 2 < fitted or fitted == rows):
            _clean_luma(cleaned, rows, luma, clean, fits, sums)
            cleaned += 1
        if rgb:
            while made < cell_rows and (2 * made + 1 < cleaned or cleaned == rows):
                _make_cells(made, rows, planes, luma, clean, cells, grey, numbers[0])
                made += 1
            while coloured < cell_rows and (coloured + 2 < made or made == cell_rows):
                _fit_colours(coloured, cell_rows, cells, noises[2 * coloured % SHORT], colour_fits, cell_sums, factors)
                coloured += 1
            while averaged < cell_rows and (averaged + 2 < coloured or coloured == cell_rows):
                _average_fits(averaged, cell_rows, colour_fits, means, cell_sums)
                averaged += 1
        while done < rows and (min(done // 2 + 1, cell_rows - 1) < averaged if rgb else done < cleaned):
            if tile[0] <= first + done < tile[1]:
                shared = _between(share, first + done, top, down, left, across, lines[6:8], shared, shares)
                if rgb:
                    _result(done, cell_rows, planes, clean, means, wide, blend, shares, unit)
                else:
                    mix_grey(planes[done % RING, 0], clean[done % RING], shares, unit)
                row = planes[done % RING]
                join(row[0, inner], row[1, inner], row[2, inner], out[first + done, target])
            done += 1


def room_to_smooth(tile: tuple[int, int, int, int], width: int, dtype: np.dtype[Any]) -> tuple[Pixels, ...]:
    """Scratch for :func:`smooth_tile` in a picture of that ``width``."""
    columns = min(tile[3] + MARGIN, width) - max(tile[2] - MARGIN, 0)
    cells = (columns + 1) // 2
    whole = (
        scratch((RING + 1, 3, columns), dtype),
        scratch((3, columns), np.uint16),
        scratch((2, columns), np.uint32),
    )
    shapes = (19 + RING, columns), (4, SHORT, columns), (4, columns + 4), (12, SHORT, cells), (5, cells + 4)
    return *whole, *(scratch(shape, np.float32) for shape in shapes)
