"""The loops along rows of the compiled smoothing: :mod:`tecu.lowlight.kernels_denoise` says how they follow each other.

Each runs over one-dimensional slices, which the compiler turns into vector code. Sums are written in the order in which
:mod:`tecu.lowlight.denoise` has them, and there is no ``fastmath``, so that both round alike.
"""

from __future__ import annotations

import numpy as np
from numba import int32, njit

_RED, _GREEN, _BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)
_RED_IN_GREEN, _BLUE_IN_GREEN = np.float32(0.299 / 0.587), np.float32(0.114 / 0.587)
_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
_QUARTER, _MOST = np.float32(0.25), np.float32(0.75)
_SHARE = np.float32(1.0 / 25.0)  # both filters have windows of 5 x 5


@njit(cache=True, nogil=True)
def luma_row(r, g, b, scale, luma):  # pragma: no cover
    """``0.299 R + 0.587 G + 0.114 B``, white being 1."""
    for x in range(luma.size):
        luma[x] = (_RED * np.float32(r[x]) + _GREEN * np.float32(g[x]) + _BLUE * np.float32(b[x])) * scale


@njit(cache=True, nogil=True)
def scaled_row(r, scale, luma):  # pragma: no cover
    """The luma of a grey picture."""
    for x in range(luma.size):
        luma[x] = np.float32(r[x]) * scale


@njit(cache=True, nogil=True)
def _mirror(line):  # pragma: no cover
    """The first and the last of the values between repeat beyond them, twice."""
    line[0] = line[1] = line[2]
    line[line.size - 1] = line[line.size - 2] = line[line.size - 3]


@njit(cache=True, nogil=True)
def down_squares(a, b, c, d, e, total, squares):  # pragma: no cover
    """Sums of five rows and of their squares, with room for two more on both sides."""
    for x in range(a.size):
        p, q, r, s, t = a[x], b[x], c[x], d[x], e[x]
        total[x + 2] = p + q + r + s + t
        squares[x + 2] = p * p + q * q + r * r + s * s + t * t
    _mirror(total)
    _mirror(squares)


@njit(cache=True, nogil=True)
def down_products(a, b, c, d, e, ga, gb, gc, gd, ge, total, products):  # pragma: no cover
    """The same, with products with five other rows in the place of squares."""
    for x in range(a.size):
        p, q, r, s, t = a[x], b[x], c[x], d[x], e[x]
        total[x + 2] = p + q + r + s + t
        products[x + 2] = p * ga[x] + q * gb[x] + r * gc[x] + s * gd[x] + t * ge[x]
    _mirror(total)
    _mirror(products)


@njit(cache=True, nogil=True)
def down_row(a, b, c, d, e, total):  # pragma: no cover
    """Sums of five rows alone."""
    for x in range(a.size):
        total[x + 2] = a[x] + b[x] + c[x] + d[x] + e[x]
    _mirror(total)


@njit(cache=True, nogil=True, error_model="numpy")  # no test for 0 / 0 in every step
def luma_fit(total, squares, noise, factor, floor, slope, offset):  # pragma: no cover
    """Slope and offset of the luma's guided filter."""
    for x in range(slope.size):
        mean = (total[x] + total[x + 1] + total[x + 2] + total[x + 3] + total[x + 4]) * _SHARE
        square = (squares[x] + squares[x + 1] + squares[x + 2] + squares[x + 3] + squares[x + 4]) * _SHARE
        variance = max(square - mean * mean, _ZERO)
        level = factor * noise[x]
        a = variance / (variance + level * level + floor)
        slope[x] = a
        offset[x] = mean - a * mean


@njit(cache=True, nogil=True)
def line_row(slopes, offsets, luma, clean):  # pragma: no cover
    """Means of slope and offset along the row, and what they make of the luma."""
    for x in range(clean.size):
        a = slopes[x] + slopes[x + 1] + slopes[x + 2] + slopes[x + 3] + slopes[x + 4]
        b = offsets[x] + offsets[x + 1] + offsets[x + 2] + offsets[x + 3] + offsets[x + 4]
        clean[x] = (a * luma[x] + b) * _SHARE


@njit(cache=True, nogil=True)
def halve_row(upper, lower, out):  # pragma: no cover
    """Two rows to means over cells of 2 x 2; a last odd column counts twice."""
    pairs = upper.size // 2
    for x in range(pairs):
        out[x] = _QUARTER * (upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1])
    if pairs < out.size:
        one, other = upper[2 * pairs], lower[2 * pairs]
        out[pairs] = _QUARTER * (one + one + other + other)


@njit(cache=True, nogil=True)
def half_difference(upper, lower, luma, out, scale):  # pragma: no cover
    """A channel of two rows of pixels minus the luma, on cells of 2 x 2."""
    share, pairs = _QUARTER * scale, upper.size // 2
    for x in range(pairs):
        total = int32(upper[2 * x]) + int32(upper[2 * x + 1]) + int32(lower[2 * x]) + int32(lower[2 * x + 1])
        out[x] = np.float32(int32(total)) * share - luma[x]
    if pairs < out.size:
        out[pairs] = np.float32(int32(upper[2 * pairs]) + int32(lower[2 * pairs])) * _HALF * scale - luma[pairs]


@njit(cache=True, nogil=True, error_model="numpy")
def colour_fit(total, squares, plane, products, noise, factor, floor, slope, offset):  # pragma: no cover
    """Slope and offset of the guided filter of a colour difference; the noise is that of a cell's first pixel."""
    for x in range(slope.size):
        m = (total[x] + total[x + 1] + total[x + 2] + total[x + 3] + total[x + 4]) * _SHARE
        square = (squares[x] + squares[x + 1] + squares[x + 2] + squares[x + 3] + squares[x + 4]) * _SHARE
        p = (plane[x] + plane[x + 1] + plane[x + 2] + plane[x + 3] + plane[x + 4]) * _SHARE
        product = (products[x] + products[x + 1] + products[x + 2] + products[x + 3] + products[x + 4]) * _SHARE
        variance = max(square - m * m, _ZERO)
        level = factor * noise[2 * x]
        a = (product - m * p) / (variance + level * level + floor)
        slope[x] = a
        offset[x] = p - a * m


@njit(cache=True, nogil=True)
def along_row(total, out):  # pragma: no cover
    """Means over five neighbours in sums of five rows."""
    for x in range(out.size):
        out[x] = (total[x] + total[x + 1] + total[x + 2] + total[x + 3] + total[x + 4]) * _SHARE


@njit(cache=True, nogil=True)
def double_row(own, other, blend, out):  # pragma: no cover
    """A row of pixels from its own row of cells and the nearest other."""
    last = own.size - 1
    for x in range(own.size):
        blend[x + 1] = _MOST * own[x] + _QUARTER * other[x]
    blend[0], blend[last + 2] = blend[1], blend[last + 1]
    for x in range(out.size // 2):
        here = _MOST * blend[x + 1]
        out[2 * x] = here + _QUARTER * blend[x]
        out[2 * x + 1] = here + _QUARTER * blend[x + 2]
    if out.size % 2:
        out[out.size - 1] = _MOST * blend[last + 1] + _QUARTER * blend[last]


@njit(cache=True, nogil=True)
def mix_red_or_blue(plane, clean, slope, offset, share, unit):  # pragma: no cover
    """``old + share (new - old)`` in place, in levels; white only where it was white already."""
    for x in range(plane.size):
        old, new = np.float32(plane[x]), unit * (clean[x] + slope[x] * clean[x] + offset[x])
        plane[x] = int32(min(max(old + share[x] * (new - old), _ZERO), max(old, unit - _ONE)) + _HALF)


@njit(cache=True, nogil=True)
def mix_green(plane, clean, ra, rb, ba, bb, share, unit):  # pragma: no cover
    """The same; ``ra, rb`` are slope and offset of red, ``ba, bb`` of blue, and the luma's part of all three is 0."""
    for x in range(plane.size):
        red, blue = ra[x] * clean[x] + rb[x], ba[x] * clean[x] + bb[x]
        old, new = np.float32(plane[x]), unit * (clean[x] - _RED_IN_GREEN * red - _BLUE_IN_GREEN * blue)
        plane[x] = int32(min(max(old + share[x] * (new - old), _ZERO), max(old, unit - _ONE)) + _HALF)


@njit(cache=True, nogil=True)
def mix_grey(plane, clean, share, unit):  # pragma: no cover
    """The same for a picture without colours."""
    for x in range(plane.size):
        old = np.float32(plane[x])
        plane[x] = int32(min(max(old + share[x] * (unit * clean[x] - old), _ZERO), max(old, unit - _ONE)) + _HALF)
