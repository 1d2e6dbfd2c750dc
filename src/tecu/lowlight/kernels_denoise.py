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


def work_space(rows: int, columns: int) -> tuple[Pixels, Pixels]:
    """Planes and row sums for strips of up to that many rows."""
    return (
        np.empty(10 * rows * columns, dtype=np.float32),
        np.empty(columns + 2 * max(LUMA_RADIUS, COLOUR_RADIUS), dtype=np.float32),
    )


def smoothed_strip(strip: Pixels, noise: Pixels, share: Pixels, planes: Pixels, sums: Pixels, scale: Any) -> None:
    """Smooth ``strip`` in place."""
    # Handed over, not compiled in: the compiler's cache would not notice a change of the constants.
    factors = np.array([LUMA_FACTOR, COLOUR_FACTOR, EPS_FLOOR], dtype=np.float32)
    shaped = planes[: 10 * noise.size].reshape(10, *noise.shape)
    _smoothed_strip(strip, noise, share, shaped, sums, scale, factors)


@njit(cache=True, nogil=True, fastmath=True)
def _five(sums, out, share):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(out.size):
        out[x] = (sums[x] + sums[x + 1] + sums[x + 2] + sums[x + 3] + sums[x + 4]) * share


@njit(cache=True, nogil=True, fastmath=True)
def _nine(sums, out, share):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(out.size):
        half = sums[x] + sums[x + 1] + sums[x + 2] + sums[x + 3] + sums[x + 4]
        out[x] = (half + sums[x + 5] + sums[x + 6] + sums[x + 7] + sums[x + 8]) * share


@njit(cache=True, nogil=True, fastmath=True)
def _slide(sums, new, old):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(new.size):
        sums[x] += new[x] - old[x]


@njit(cache=True, nogil=True, fastmath=True)
def _box(source, out, radius, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Means over squares of radius 2 or 4, the border repeated: running sums down the columns, then along the rows."""
    height, width = source.shape
    share = _ONE / np.float32((2 * radius + 1) ** 2)
    column = sums[radius : radius + width]
    column[:] = _ZERO
    for k in range(-radius, radius + 1):
        column += source[min(max(k, 0), height - 1)]
    for y in range(height):
        sums[:radius] = column[0]
        sums[radius + width : 2 * radius + width] = column[width - 1]
        if radius == 2:
            _five(sums, out[y], share)
        else:
            _nine(sums, out[y], share)
        _slide(column, source[min(y + radius + 1, height - 1)], source[max(y - radius, 0)])


@njit(cache=True, nogil=True, fastmath=True)
def _luma_row(row, luma, square, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(luma.size):
        y = (_RED * row[3 * x] + _GREEN * row[3 * x + 1] + _BLUE * row[3 * x + 2]) * scale
        luma[x] = y
        square[x] = y * y


@njit(cache=True, nogil=True, fastmath=True)
def _grey_row(row, luma, square, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(luma.size):
        y = row[x] * scale
        luma[x] = y
        square[x] = y * y


@njit(cache=True, nogil=True, fastmath=True)
def _luma_fit(mean, square, noise, factor, floor):  # type: ignore[no-untyped-def]  # pragma: no cover
    """``square`` becomes the slope, ``mean`` the offset of the luma's guided filter."""
    for x in range(mean.size):
        m = mean[x]
        variance = max(square[x] - m * m, _ZERO)
        level = factor * noise[x]
        slope = variance / (variance + level * level + floor)
        square[x] = slope
        mean[x] = m - slope * m


@njit(cache=True, nogil=True, fastmath=True)
def _colour_fit(mean, square, plane, product, noise, factor, floor):  # type: ignore[no-untyped-def]  # pragma: no cover
    """``product`` becomes the slope, ``plane`` the offset of a colour difference."""
    for x in range(mean.size):
        m, p = mean[x], plane[x]
        variance = max(square[x] - m * m, _ZERO)
        level = factor * noise[x]
        slope = (product[x] - m * p) / (variance + level * level + floor)
        product[x] = slope
        plane[x] = p - slope * m


@njit(cache=True, nogil=True, fastmath=True)
def _line(slope, guide, offset, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(out.size):
        out[x] = slope[x] * guide[x] + offset[x]


@njit(cache=True, nogil=True, fastmath=True)
def _difference(row, channel, luma, clean, plane, product, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(luma.size):
        d = row[3 * x + channel] * scale - luma[x]
        plane[x] = d
        product[x] = d * clean[x]


@njit(cache=True, nogil=True, fastmath=True)
def _rounded(value, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    return np.int32(min(max(value, _ZERO), _ONE) / scale + _HALF)


@njit(cache=True, nogil=True, fastmath=True)
def _mix_rgb(row, clean, red, blue, share, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(clean.size):
        y, r, b, s = clean[x], red[x], blue[x], share[x]
        g = -(_RED * r + _BLUE * b) / _GREEN
        old = row[3 * x] * scale
        row[3 * x] = _rounded(old + s * (y + r - old), scale)
        old = row[3 * x + 1] * scale
        row[3 * x + 1] = _rounded(old + s * (y + g - old), scale)
        old = row[3 * x + 2] * scale
        row[3 * x + 2] = _rounded(old + s * (y + b - old), scale)


@njit(cache=True, nogil=True, fastmath=True)
def _mix_grey(row, clean, luma, share, scale):  # type: ignore[no-untyped-def]  # pragma: no cover
    for x in range(clean.size):
        row[x] = _rounded(luma[x] + share[x] * (clean[x] - luma[x]), scale)


@njit(cache=True, nogil=True, fastmath=True)
def _smoothed_strip(strip, noise, share, planes, sums, scale, factors):  # type: ignore[no-untyped-def]  # pragma: no cover
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
    mean, square = planes[6, :height], planes[7, :height]
    for y in range(height):
        _line(clean[y], clean[y], np.zeros_like(clean[y]), a[y])
    _box(clean, mean, COLOUR_RADIUS, sums)
    _box(a, square, COLOUR_RADIUS, sums)
    for place in range(2):
        colour = planes[8 + place, :height]
        for y in range(height):
            _difference(strip[y], 2 * place, luma[y], clean[y], a[y], b[y], scale)
        _box(a, c, COLOUR_RADIUS, sums)
        _box(b, d, COLOUR_RADIUS, sums)
        for y in range(height):
            _colour_fit(mean[y], square[y], c[y], d[y], noise[y], factors[1], factors[2])
        _box(c, a, COLOUR_RADIUS, sums)
        _box(d, b, COLOUR_RADIUS, sums)
        for y in range(height):
            _line(b[y], clean[y], a[y], colour[y])
    for y in range(height):
        _mix_rgb(strip[y], clean[y], planes[8, y], planes[9, y], share[y], scale)
