"""The compiled twin of :func:`tecu.lowlight.denoise.smoothed`, for one strip of a large picture.

Strips are flat in the columns, ``R G B R G B ...``; planes are ``rows x columns`` of float32. Everything is done row by
row on one-dimensional slices, which the compiler turns into vector code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tecu.lowlight.denoise import COLOUR_FACTOR, COLOUR_RADIUS, EPS_FLOOR, LUMA_FACTOR, LUMA_RADIUS

Pixels = np.ndarray[Any, Any]

_RED, _GREEN, _BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)
_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
_QUARTER, _MOST = np.float32(0.25), np.float32(0.75)


def work_space(rows: int, columns: int) -> tuple[Pixels, Pixels]:
    """Planes of pixels and of cells, and row sums, for strips of up to that many rows."""
    return (
        np.empty(6 * rows * columns + 12 * ((rows + 1) // 2) * ((columns + 1) // 2), dtype=np.float32),
        np.empty(columns + 2 * max(LUMA_RADIUS, COLOUR_RADIUS), dtype=np.float32),
    )


def smoothed_strip(strip: Pixels, noise: Pixels, share: Pixels, space: Pixels, sums: Pixels, scale: Any) -> None:
    """Smooth ``strip`` in place."""
    # Handed over, not compiled in: the compiler's cache would not notice a change of the constants.
    factors = np.array([LUMA_FACTOR, COLOUR_FACTOR, EPS_FLOOR], dtype=np.float32)
    rows, columns = noise.shape
    planes = space[: 6 * noise.size].reshape(6, rows, columns)
    rows, columns = (rows + 1) // 2, (columns + 1) // 2
    cells = space[6 * noise.size :][: 12 * rows * columns].reshape(12, rows, columns)
    _smoothed_strip(strip, noise, share, planes, cells, sums, scale, factors)


@njit(cache=True, nogil=True, fastmath=True)
def _five(sums, out, share):  # pragma: no cover
    for x in range(out.size):
        out[x] = (sums[x] + sums[x + 1] + sums[x + 2] + sums[x + 3] + sums[x + 4]) * share


@njit(cache=True, nogil=True, fastmath=True)
def _slide(sums, new, old):  # pragma: no cover
    for x in range(new.size):
        sums[x] += new[x] - old[x]


@njit(cache=True, nogil=True, fastmath=True)
def _box(source, out, radius, sums):  # pragma: no cover
    """Means over squares of radius 2, the border repeated: running sums down the columns, then along the rows."""
    height, width = source.shape
    share = _ONE / np.float32((2 * radius + 1) ** 2)
    column = sums[radius : radius + width]
    column[:] = _ZERO
    for k in range(-radius, radius + 1):
        column += source[min(max(k, 0), height - 1)]
    for y in range(height):
        sums[:radius] = column[0]
        sums[radius + width : 2 * radius + width] = column[width - 1]
        _five(sums, out[y], share)
        _slide(column, source[min(y + radius + 1, height - 1)], source[max(y - radius, 0)])


@njit(cache=True, nogil=True, fastmath=True)
def _luma_row(row, luma, square, scale):  # pragma: no cover
    for x in range(luma.size):
        y = (_RED * row[3 * x] + _GREEN * row[3 * x + 1] + _BLUE * row[3 * x + 2]) * scale
        luma[x] = y
        square[x] = y * y


@njit(cache=True, nogil=True, fastmath=True)
def _grey_row(row, luma, square, scale):  # pragma: no cover
    for x in range(luma.size):
        y = row[x] * scale
        luma[x] = y
        square[x] = y * y


@njit(cache=True, nogil=True, fastmath=True)
def _luma_fit(mean, square, noise, factor, floor):  # pragma: no cover
    """``square`` becomes the slope, ``mean`` the offset of the luma's guided filter."""
    for x in range(mean.size):
        m = mean[x]
        variance = max(square[x] - m * m, _ZERO)
        level = factor * noise[x]
        slope = variance / (variance + level * level + floor)
        square[x] = slope
        mean[x] = m - slope * m


@njit(cache=True, nogil=True, fastmath=True)
def _colour_fit(mean, square, plane, product, noise, factor, floor):  # pragma: no cover
    """``product`` becomes the slope, ``plane`` the offset of a colour difference."""
    for x in range(mean.size):
        m, p = mean[x], plane[x]
        variance = max(square[x] - m * m, _ZERO)
        level = factor * noise[x]
        slope = (product[x] - m * p) / (variance + level * level + floor)
        product[x] = slope
        plane[x] = p - slope * m


@njit(cache=True, nogil=True, fastmath=True)
def _line(slope, guide, offset, out):  # pragma: no cover
    for x in range(out.size):
        out[x] = slope[x] * guide[x] + offset[x]


@njit(cache=True, nogil=True, fastmath=True)
def _product(one, other, out):  # pragma: no cover
    for x in range(out.size):
        out[x] = one[x] * other[x]


@njit(cache=True, nogil=True, fastmath=True)
def _halve(upper, lower, out):  # pragma: no cover
    """Two rows to means over cells of 2 x 2; a last odd column counts twice."""
    pairs = upper.size // 2
    for x in range(pairs):
        out[x] = _QUARTER * (upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1])
    if pairs < out.size:
        out[pairs] = _HALF * (upper[2 * pairs] + lower[2 * pairs])


@njit(cache=True, nogil=True, fastmath=True)
def _half_difference(upper, lower, channel, luma, out, scale):  # pragma: no cover
    """A channel of two rows of pixels minus the luma, on cells of 2 x 2."""
    share, pairs = _QUARTER * scale, upper.size // 6
    for x in range(pairs):
        k = 6 * x + channel
        total = np.int32(upper[k]) + np.int32(upper[k + 3]) + np.int32(lower[k]) + np.int32(lower[k + 3])
        out[x] = np.float32(total) * share - luma[x]
    if pairs < out.size:
        k = 6 * pairs + channel
        out[pairs] = np.float32(np.int32(upper[k]) + np.int32(lower[k])) * _HALF * scale - luma[pairs]


@njit(cache=True, nogil=True, fastmath=True)
def _double(own, other, blend, out):  # pragma: no cover
    """A row of pixels from its own row of cells and the nearest other."""
    last = own.size - 1
    for x in range(own.size):
        blend[x] = _MOST * own[x] + _QUARTER * other[x]
    out[0] = blend[0]
    for x in range(1, (out.size + 1) // 2):
        out[2 * x - 1] = _MOST * blend[x - 1] + _QUARTER * blend[x]
        out[2 * x] = _MOST * blend[x] + _QUARTER * blend[x - 1]
    if out.size % 2 == 0:
        out[out.size - 1] = blend[last]


@njit(cache=True, nogil=True, fastmath=True)
def _rounded(value, scale):  # pragma: no cover
    return np.int32(min(max(value, _ZERO), _ONE) / scale + _HALF)


@njit(cache=True, nogil=True, fastmath=True)
def _mix_rgb(row, clean, lines, share, scale):  # pragma: no cover
    """``lines``: slope and offset of red, then those of blue."""
    red_slope, red_offset, blue_slope, blue_offset = lines[0], lines[1], lines[2], lines[3]
    for x in range(clean.size):
        y, s = clean[x], share[x]
        r, b = red_slope[x] * y + red_offset[x], blue_slope[x] * y + blue_offset[x]
        g = -(_RED * r + _BLUE * b) / _GREEN
        old = row[3 * x] * scale
        row[3 * x] = _rounded(old + s * (y + r - old), scale)
        old = row[3 * x + 1] * scale
        row[3 * x + 1] = _rounded(old + s * (y + g - old), scale)
        old = row[3 * x + 2] * scale
        row[3 * x + 2] = _rounded(old + s * (y + b - old), scale)


@njit(cache=True, nogil=True, fastmath=True)
def _mix_grey(row, clean, luma, share, scale):  # pragma: no cover
    for x in range(clean.size):
        row[x] = _rounded(luma[x] + share[x] * (clean[x] - luma[x]), scale)


@njit(cache=True, nogil=True, fastmath=True)
def _smoothed_strip(strip, noise, share, planes, cells, sums, scale, factors):  # pragma: no cover
    height, width = noise.shape
    rgb = strip.shape[1] == 3 * width
    luma, clean = planes[0, :height], planes[1, :height]
    a, b, c, d = planes[2, :height], planes[3, :height], planes[4, :height], planes[5, :height]
    for y in range(height):
        if rgb:
            _luma_row(strip[y], luma[y], a[y], scale)
        else:
            _grey_row(strip[y], luma[y], a[y], scale)
    _box(luma, b, LUMA_RADIUS, sums)
    _box(a, c, LUMA_RADIUS, sums)
    for y in range(height):
        _luma_fit(b[y], c[y], noise[y], factors[0], factors[2])
    _box(b, a, LUMA_RADIUS, sums)
    _box(c, d, LUMA_RADIUS, sums)
    for y in range(height):
        _line(d[y], luma[y], a[y], clean[y])
    if not rgb:
        for y in range(height):
            _mix_grey(strip[y], clean[y], luma[y], share[y], scale)
        return
    _colours(strip, luma, clean, noise, share, cells, sums, scale, factors)


@njit(cache=True, nogil=True, fastmath=True)
def _colours(strip, luma, clean, noise, share, cells, sums, scale, factors):  # pragma: no cover
    """Both colour differences by the fast guided filter, and the strip's pixels from them and the clean luma."""
    height, width = clean.shape
    rows, columns = cells.shape[1:]
    grey, guide, mean, square = cells[0], cells[1], cells[2], cells[3]
    level, a, b, c = cells[4], cells[5], cells[6], cells[7]
    for y in range(rows):
        below = min(2 * y + 1, height - 1)
        _halve(luma[2 * y], luma[below], grey[y])
        _halve(clean[2 * y], clean[below], guide[y])
        _product(guide[y], guide[y], a[y])
        level[y] = noise[2 * y, ::2]
    _box(guide, mean, COLOUR_RADIUS, sums)
    _box(a, square, COLOUR_RADIUS, sums)
    for place in range(2):
        slope, offset = cells[8 + 2 * place], cells[9 + 2 * place]
        for y in range(rows):
            _half_difference(strip[2 * y], strip[min(2 * y + 1, height - 1)], 2 * place, grey[y], a[y], scale)
            _product(a[y], guide[y], b[y])
        _box(a, c, COLOUR_RADIUS, sums)
        _box(b, a, COLOUR_RADIUS, sums)
        for y in range(rows):
            _colour_fit(mean[y], square[y], c[y], a[y], level[y], factors[1], factors[2])
        _box(a, slope, COLOUR_RADIUS, sums)
        _box(c, offset, COLOUR_RADIUS, sums)
    lines, blend = np.empty((4, width), np.float32), np.empty(columns, np.float32)
    for y in range(height):
        own, other = y // 2, min(max(y // 2 - 1 + y % 2 * 2, 0), rows - 1)
        for k in range(4):
            _double(cells[8 + k, own], cells[8 + k, other], blend, lines[k])
        _mix_rgb(strip[y], clean[y], lines, share[y], scale)
