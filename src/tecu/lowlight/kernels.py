"""Compiled kernels for large pictures of 8 or 16 bits; imported only when there is one.

Rows are handed over flat, ``R G B R G B ...``, and indices are unsigned: that is what lets the compiler use vectors and
leave out its checks (three times faster than indexing ``pixels[y, x, c]``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint32, uint64

from tecu.lowlight.denoise import MARGIN
from tecu.lowlight.exposure import Exposure, black_until, near_black
from tecu.lowlight.grid import positions, whitepoint
from tecu.lowlight.kernels_denoise import smoothed_strip, work_space
from tecu.lowlight.model import DARKEST

Pixels = np.ndarray[Any, Any]

STRIP = 288
FRACTION = 9  # bits of the mantissa that the table of gains distinguishes: 0.1 % of the gain
ROWS_A_CELL = 10  # rows of a cell that are averaged, at least; the noise of 200 pixels is small enough
SIZE = {np.dtype(np.uint8): (1 << 13, 16), np.dtype(np.uint16): (1 << 16, 15)}  # of the curve's table; bits of a gain
_LOWEST = int(np.float32(DARKEST).view(np.int32))
_SHIFT = 23 - FRACTION


def render(pixels: Pixels, exposure: Exposure, smoothing: tuple[Pixels, Pixels] | None) -> Pixels:
    """The result for ``pixels``, ``h x w x c``; ``smoothing`` is noise and share on the grid, or ``None``."""
    pixels = np.ascontiguousarray(pixels)
    height, width, channels = pixels.shape
    flat, out = pixels.reshape(height, -1), np.empty_like(pixels)
    rows, columns = positions(height, exposure.slope.shape[0]), positions(width, exposure.slope.shape[1])
    size, fixed = SIZE[pixels.dtype]
    gain = gains(exposure.tone.exponent, size * 2**fixed / whitepoint(pixels.dtype))
    table, black = table_of(exposure, pixels.dtype), black_levels(exposure, pixels.dtype)
    scene = (exposure.slope, exposure.offset, *rows, *columns, gain, table, black)
    scale, bits = np.float32(1.0 / whitepoint(pixels.dtype)), np.uint32(fixed)
    steep = np.float32(1.0 / exposure.headroom)
    if smoothing is None:
        _fill_rows(flat, out.reshape(height, -1), 0, height, 0, *scene, scale, bits, steep)
        return out
    noise, share = smoothing
    deepest = min(STRIP + 2 * MARGIN, height)
    strip = np.empty((deepest, width * channels), dtype=pixels.dtype)
    noises, shares = (np.empty((deepest, width), dtype=np.float32) for _ in range(2))
    work = work_space(deepest, width)
    white = int(whitepoint(pixels.dtype))
    for top in range(0, height, STRIP):
        bottom = min(top + STRIP, height)
        first, last = max(top - MARGIN, 0), min(bottom + MARGIN, height)
        depth, inner = last - first, slice(top - first, bottom - first)
        _fill_rows(flat, strip, first, last, first, *scene, scale, bits, steep)
        _enlarge_rows(share, shares[:depth], first, *rows, *columns)
        if np.any(shares[:depth]):  # else there is nothing to smooth in this strip
            _enlarge_rows(noise, noises[:depth], first, *rows, *columns)
            smoothed_strip(strip[:depth], noises[:depth], shares[:depth], *work, scale)
        _finish(strip[inner], flat[top:bottom], out.reshape(height, -1)[top:bottom], white)
    return out


def gains(exponent: float, unit: float) -> Pixels:
    """``unit I^-exponent`` as integers, for I from the darkest to 1, indexed by the leading bits of I as a float."""
    count = ((int(np.float32(1.0).view(np.int32)) - _LOWEST) >> _SHIFT) + 1
    bits = (_LOWEST + (np.arange(count, dtype=np.int64) << _SHIFT) + (1 << (_SHIFT - 1))).astype(np.int32)
    light = bits.view(np.float32).astype(np.float64)
    light[-1] = 1.0
    return np.asarray(np.floor(unit * light**-exponent), dtype=np.uint32)


def black_levels(exposure: Exposure, dtype: Any) -> Pixels:
    """For each nearly black value V, 256 times its own share and 256 times the share of V in a channel's result."""
    white = whitepoint(dtype)
    values = np.arange(int(black_until(exposure.highlights) * white) + 1) / white
    grey, dim = near_black(values, exposure.tone.exponent, exposure.highlights)
    return np.asarray(np.rint([256 * dim * (1.0 - grey), 256 * dim * grey]), dtype=np.uint64)


def table_of(exposure: Exposure, dtype: Any) -> Pixels:
    """The curve as a table of results; only entries that none but a white value reaches are white."""
    size, white = SIZE[np.dtype(dtype)][0], whitepoint(dtype)
    curve = exposure.tone.curve
    place = np.minimum((np.arange(size + 2) + 0.5) / size, 1.0)
    values = np.rint(np.interp(place, np.linspace(0.0, 1.0, len(curve)), curve) * white)
    nearly = int((white - 1.0) * size / white) + 1
    values[:nearly] = np.minimum(values[:nearly], white - 1.0)
    values[nearly:] = np.rint(curve[-1] * white)
    return values.astype(dtype)


def shrink(pixels: Pixels, shape: tuple[int, int]) -> Pixels:
    """``pixels`` (8-bit, ``h x w x 3``) averaged over the cells of a grid of that ``shape``; float32 in [0, 1].

    Of cells with many rows only some rows are read.
    """
    pixels = np.ascontiguousarray(pixels)
    height, width, channels = pixels.shape
    down = (np.arange(shape[0] + 1) * height) // shape[0]
    across = (np.arange(shape[1] + 1) * width) // shape[1]
    step = max(1, min(height // shape[0] // ROWS_A_CELL, 64))
    out = np.empty((*shape, channels), dtype=np.float32)
    _cell_means(pixels.reshape(height, -1), down, across, step, channels, out)
    return out


def padded(pixels: Pixels) -> Pixels:
    """``h x w x 3`` bytes to ``h x w x 4`` with 255 as the fourth, the layout in which Pillow holds RGB."""
    pixels = np.ascontiguousarray(pixels)
    height, width, _ = pixels.shape
    out = np.empty((height, width, 4), dtype=np.uint8)
    _pad_rows(pixels.reshape(height, -1), out.reshape(height, -1))
    return out


@njit(cache=True, nogil=True)
def _pad_rows(flat, out):  # pragma: no cover
    for y in range(flat.shape[0]):
        row, wide = flat[y], out[y]
        for x in range(wide.size // 4):
            wide[4 * x], wide[4 * x + 1], wide[4 * x + 2] = row[3 * x], row[3 * x + 1], row[3 * x + 2]
            wide[4 * x + 3] = 255


@njit(cache=True, nogil=True)
def _cell_means(flat, down, across, step, channels, out):  # pragma: no cover
    sums = np.empty(flat.shape[1], np.uint32)
    for i in range(out.shape[0]):
        sums[:] = 0
        count = 0
        for y in range(down[i], down[i + 1], step):
            _add_row(flat[y], sums)
            count += 1
        for j in range(out.shape[1]):
            share = np.float32(1.0) / np.float32(255 * count * (across[j + 1] - across[j]))
            for c in range(channels):
                total = uint64(0)
                for x in range(across[j], across[j + 1]):
                    total += sums[x * channels + c]
                out[i, j, c] = np.float32(total) * share


@njit(cache=True, nogil=True)
def _add_row(row, sums):  # pragma: no cover
    for x in range(row.size):
        sums[x] += uint32(row[x])


@njit(cache=True, nogil=True, fastmath=True)
def _widen(row, left, across, out):  # pragma: no cover
    """A line of the grid, interpolated to the pixels of a row."""
    last = row.size - 1
    for x in range(out.size):
        k = left[x]
        out[x] = row[k] + across[x] * (row[min(k + 1, last)] - row[k])


@njit(cache=True, nogil=True, fastmath=True)
def _rgb_light(row, scale, steep, a0, a1, b0, b1, part, light):  # pragma: no cover
    """``I = clip(a V + b, steep V, 1)`` along a row."""
    for x in range(light.size):
        v = np.float32(max(row[3 * x], max(row[3 * x + 1], row[3 * x + 2]))) * scale
        a, b = a0[x] + part * (a1[x] - a0[x]), b0[x] + part * (b1[x] - b0[x])
        lowest = max(v * steep, np.float32(DARKEST))
        light[x] = min(max(a * v + b, lowest), np.float32(1.0))


@njit(cache=True, nogil=True, fastmath=True)
def _grey_light(row, scale, steep, a0, a1, b0, b1, part, light):  # pragma: no cover
    for x in range(light.size):
        v = np.float32(row[x]) * scale
        a, b = a0[x] + part * (a1[x] - a0[x]), b0[x] + part * (b1[x] - b0[x])
        lowest = max(v * steep, np.float32(DARKEST))
        light[x] = min(max(a * v + b, lowest), np.float32(1.0))


@njit(cache=True, nogil=True)
def _rgb_tone(row, out, bits, gain, table, black, fixed):  # pragma: no cover
    """``curve(O / I^s)`` along a row; the product is at most 1, because ``I >= V / headroom`` and ``s <= 1``."""
    for x in range(bits.size):
        g = gain[uint64(uint32(bits[x] - _LOWEST) >> uint32(_SHIFT))]
        v = max(row[3 * x], max(row[3 * x + 1], row[3 * x + 2]))
        if v < black.shape[1]:
            for c in range(3):
                mixed = uint64(row[3 * x + c]) * black[0, v] + uint64(v) * black[1, v]
                out[3 * x + c] = table[uint64(mixed * uint64(g)) >> (uint64(fixed) + uint64(8))]
            continue
        out[3 * x] = table[uint64(uint32(uint32(row[3 * x]) * g) >> fixed)]
        out[3 * x + 1] = table[uint64(uint32(uint32(row[3 * x + 1]) * g) >> fixed)]
        out[3 * x + 2] = table[uint64(uint32(uint32(row[3 * x + 2]) * g) >> fixed)]


@njit(cache=True, nogil=True)
def _grey_tone(row, out, bits, gain, table, black, fixed):  # pragma: no cover
    for x in range(bits.size):
        g = gain[uint64(uint32(bits[x] - _LOWEST) >> uint32(_SHIFT))]
        v = row[x]
        if v < black.shape[1]:
            dimmed = uint64(v) * (black[0, v] + black[1, v])
            out[x] = table[uint64(dimmed * uint64(g)) >> (uint64(fixed) + uint64(8))]
            continue
        out[x] = table[uint64(uint32(uint32(row[x]) * g) >> fixed)]


@njit(cache=True, nogil=True)
def _fill_rows(
    flat, out, first, last, base, slope, offset, top, down, left, across, gain, table, black, scale, fixed, steep
):  # pragma: no cover
    """Rows ``first`` to ``last`` of the result, written to ``out`` from row ``first - base`` on."""
    width = left.size
    lines = np.empty((4, width), np.float32)
    light = np.empty(width, np.float32)
    bits = light.view(np.int32)
    rgb = flat.shape[1] == 3 * width
    known = -1
    for y in range(first, last):
        upper = top[y]
        if upper != known:  # a new line of the grid, once in some twenty rows
            lower = min(upper + 1, slope.shape[0] - 1)
            _widen(slope[upper], left, across, lines[0])
            _widen(slope[lower], left, across, lines[1])
            _widen(offset[upper], left, across, lines[2])
            _widen(offset[lower], left, across, lines[3])
            known = upper
        if rgb:
            _rgb_light(flat[y], scale, steep, lines[0], lines[1], lines[2], lines[3], down[y], light)
            _rgb_tone(flat[y], out[y - base], bits, gain, table, black, fixed)
        else:
            _grey_light(flat[y], scale, steep, lines[0], lines[1], lines[2], lines[3], down[y], light)
            _grey_tone(flat[y], out[y - base], bits, gain, table, black, fixed)


@njit(cache=True, nogil=True, fastmath=True)
def _enlarge_rows(plane, out, base, top, down, left, across):  # pragma: no cover
    """Rows of ``plane`` interpolated to the picture's pixels, from row ``base`` on."""
    width = out.shape[1]
    upper_row, lower_row = np.empty(width, np.float32), np.empty(width, np.float32)
    known = -1
    for y in range(out.shape[0]):
        upper = top[y + base]
        if upper != known:
            _widen(plane[upper], left, across, upper_row)
            _widen(plane[min(upper + 1, plane.shape[0] - 1)], left, across, lower_row)
            known = upper
        part, row = down[y + base], out[y]
        for x in range(width):
            row[x] = upper_row[x] + part * (lower_row[x] - upper_row[x])


@njit(cache=True, nogil=True)
def _finish(strip, pixels, out, white):  # pragma: no cover
    """Copy; white only where the picture was white already."""
    for y in range(out.shape[0]):
        source, before, row = strip[y], pixels[y], out[y]
        for x in range(row.size):
            value = source[x]
            row[x] = value if value < white or before[x] == white else white - 1
