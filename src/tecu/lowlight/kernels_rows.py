"""The loops along rows of the compiled smoothing: :mod:`tecu.lowlight.kernels_denoise` says how they follow each other.

Each runs over one-dimensional slices, which the compiler turns into vector code. Sums are written in the order in which
:mod:`tecu.lowlight.denoise` has them, and there is no ``fastmath``, so that both round alike.
"""

from __future__ import annotations

import numpy as np

from tecu.kernels.words import Levels, Single, Singles
from tecu.lowlight.compiled import part, routine

_RED, _GREEN, _BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)
_RED_IN_GREEN, _BLUE_IN_GREEN = np.float32(0.299 / 0.587), np.float32(0.114 / 0.587)
_ONE, _ZERO, _HALF = np.float32(1.0), np.float32(0.0), np.float32(0.5)
_QUARTER, _MOST = np.float32(0.25), np.float32(0.75)
_SHARE = np.float32(1.0 / 25.0)  # both filters have windows of 5 x 5


@routine
def luma_row(r: Levels, g: Levels, b: Levels, scale: Single, luma: Singles) -> None:
    """``0.299 R + 0.587 G + 0.114 B``, white being 1."""
    for x in range(luma.size):
        luma[x] = (_RED * np.float32(r[x]) + _GREEN * np.float32(g[x]) + _BLUE * np.float32(b[x])) * scale


@routine
def scaled_row(r: Levels, scale: Single, luma: Singles) -> None:
    """The luma of a grey picture."""
    for x in range(luma.size):
        luma[x] = np.float32(r[x]) * scale


@part
def _mirror(line: Singles) -> None:
    """The first and the last of the values between repeat beyond them, twice."""
    line[0] = line[1] = line[2]
    line[line.size - 1] = line[line.size - 2] = line[line.size - 3]


@routine
def down_squares(a: Singles, b: Singles, c: Singles, d: Singles, e: Singles, total: Singles, squares: Singles) -> None:
    """Sums of five rows and of their squares, with room for two more on both sides."""
    for x in range(a.size):
        p, q, r, s, t = a[x], b[x], c[x], d[x], e[x]
        total[x + 2] = p + q + r + s + t
        squares[x + 2] = p * p + q * q + r * r + s * s + t * t
    _mirror(total)
    _mirror(squares)


@routine
def down_products(
    a: Singles,
    b: Singles,
    c: Singles,
    d: Singles,
    e: Singles,
    ga: Singles,
    gb: Singles,
    gc: Singles,
    gd: Singles,
    ge: Singles,
    total: Singles,
    products: Singles,
) -> None:
    """The same, with products with five other rows in the place of squares."""
    for x in range(a.size):
        p, q, r, s, t = a[x], b[x], c[x], d[x], e[x]
        total[x + 2] = p + q + r + s + t
        products[x + 2] = p * ga[x] + q * gb[x] + r * gc[x] + s * gd[x] + t * ge[x]
    _mirror(total)
    _mirror(products)


@routine
def down_row(a: Singles, b: Singles, c: Singles, d: Singles, e: Singles, total: Singles) -> None:
    """Sums of five rows alone."""
    for x in range(a.size):
        total[x + 2] = a[x] + b[x] + c[x] + d[x] + e[x]
    _mirror(total)


@routine
def luma_fit(
    total: Singles, squares: Singles, noise: Singles, factor: Single, floor: Single, slope: Singles, offset: Singles
) -> None:
    """Slope and offset of the luma's guided filter."""
    for x in range(slope.size):
        mean = (total[x] + total[x + 1] + total[x + 2] + total[x + 3] + total[x + 4]) * _SHARE
        square = (squares[x] + squares[x + 1] + squares[x + 2] + squares[x + 3] + squares[x + 4]) * _SHARE
        variance = max(square - mean * mean, _ZERO)
        level = factor * noise[x]
        a = variance / (variance + level * level + floor)
        slope[x] = a
        offset[x] = mean - a * mean


@routine
def line_row(slopes: Singles, offsets: Singles, luma: Singles, clean: Singles) -> None:
    """Means of slope and offset along the row, and what they make of the luma."""
    for x in range(clean.size):
        a = slopes[x] + slopes[x + 1] + slopes[x + 2] + slopes[x + 3] + slopes[x + 4]
        b = offsets[x] + offsets[x + 1] + offsets[x + 2] + offsets[x + 3] + offsets[x + 4]
        clean[x] = (a * luma[x] + b) * _SHARE


@routine
def halve_row(upper: Singles, lower: Singles, out: Singles) -> None:
    """Two rows to means over cells of 2 x 2; a last odd column counts twice."""
    pairs = upper.size // 2
    for x in range(pairs):
        out[x] = _QUARTER * (upper[2 * x] + upper[2 * x + 1] + lower[2 * x] + lower[2 * x + 1])
    if pairs < out.size:
        one, other = upper[2 * pairs], lower[2 * pairs]
        out[pairs] = _QUARTER * (one + one + other + other)


@routine
def half_difference(upper: Levels, lower: Levels, luma: Singles, out: Singles, scale: Single) -> None:
    """A channel of two rows of pixels minus the luma, on cells of 2 x 2."""
    share, pairs = _QUARTER * scale, upper.size // 2
    for x in range(pairs):
        total = (
            np.int32(upper[2 * x]) + np.int32(upper[2 * x + 1]) + np.int32(lower[2 * x]) + np.int32(lower[2 * x + 1])
        )
        out[x] = np.float32(np.int32(total)) * share - luma[x]
    if pairs < out.size:
        out[pairs] = np.float32(np.int32(upper[2 * pairs]) + np.int32(lower[2 * pairs])) * _HALF * scale - luma[pairs]


@routine
def colour_fit(
    total: Singles,
    squares: Singles,
    plane: Singles,
    products: Singles,
    noise: Singles,
    factor: Single,
    floor: Single,
    slope: Singles,
    offset: Singles,
) -> None:
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


@routine
def along_row(total: Singles, out: Singles) -> None:
    """Means over five neighbours in sums of five rows."""
    for x in range(out.size):
        out[x] = (total[x] + total[x + 1] + total[x + 2] + total[x + 3] + total[x + 4]) * _SHARE


@routine
def double_row(own: Singles, other: Singles, blend: Singles, out: Singles) -> None:
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


@routine
def mix_red_or_blue(
    plane: Levels, clean: Singles, slope: Singles, offset: Singles, share: Singles, unit: Single
) -> None:
    """``old + share (new - old)`` in place, in levels; white only where it was white already."""
    for x in range(plane.size):
        old, new = np.float32(plane[x]), unit * (clean[x] + slope[x] * clean[x] + offset[x])
        plane[x] = np.int32(min(max(old + share[x] * (new - old), _ZERO), max(old, unit - _ONE)) + _HALF)


@routine
def mix_green(
    plane: Levels, clean: Singles, ra: Singles, rb: Singles, ba: Singles, bb: Singles, share: Singles, unit: Single
) -> None:
    """The same; ``ra, rb`` are slope and offset of red, ``ba, bb`` of blue, and the luma's part of all three is 0."""
    for x in range(plane.size):
        red, blue = ra[x] * clean[x] + rb[x], ba[x] * clean[x] + bb[x]
        old, new = np.float32(plane[x]), unit * (clean[x] - _RED_IN_GREEN * red - _BLUE_IN_GREEN * blue)
        plane[x] = np.int32(min(max(old + share[x] * (new - old), _ZERO), max(old, unit - _ONE)) + _HALF)


@routine
def mix_grey(plane: Levels, clean: Singles, share: Singles, unit: Single) -> None:
    """The same for a picture without colours."""
    for x in range(plane.size):
        old = np.float32(plane[x])
        plane[x] = np.int32(min(max(old + share[x] * (unit * clean[x] - old), _ZERO), max(old, unit - _ONE)) + _HALF)
