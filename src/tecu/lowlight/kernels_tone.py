"""The tone of a row of pixels, compiled: ``curve(O gain)``, the gain of :meth:`tecu.lowlight.tone.Tone.gain`.

Rows come flat, ``R G B R G B ...``, and are taken apart into planes. Everything but the two look-ups is vector code:
loops over one-dimensional slices. Indices are unsigned, and sums and products are cut to 32 bits at once, because the
compiler's 64 bits would halve the speed. There is no ``fastmath``: it gains nothing here, and the compiler would round
otherwise than NumPy does in :mod:`tecu.lowlight.tables`.
"""

from __future__ import annotations

import numpy as np
from numba import int32, njit, uint32, uint64

from tecu.lowlight.model import DARKEST
from tecu.lowlight.tables import BITS, LOWEST, SHIFT

_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@njit(cache=True, nogil=True)
def _split(row, r, g, b, v):  # pragma: no cover
    for x in range(r.size):
        first, second, third = row[3 * x], row[3 * x + 1], row[3 * x + 2]
        r[x], g[x], b[x] = first, second, third
        v[x] = max(first, max(second, third))


@njit(cache=True, nogil=True)
def _split_padded(row, r, g, b, v):  # pragma: no cover
    for x in range(r.size):
        first, second, third = row[4 * x], row[4 * x + 1], row[4 * x + 2]
        r[x], g[x], b[x] = first, second, third
        v[x] = max(first, max(second, third))


@njit(cache=True, nogil=True)
def _without_cast(plane, cast, scale, bare, v):  # pragma: no cover
    """``bare`` becomes what :func:`tecu.lowlight.exposure.without_cast` leaves; ``v`` the larger of it and that."""
    for x in range(plane.size):
        value = np.float32(plane[x])
        left = (_ONE - value * scale) * (_ONE - value * scale)
        bare[x] = max(value - cast * left * left, _ZERO)
        v[x] = max(v[x], bare[x])


@njit(cache=True, nogil=True)
def join(r, g, b, row):  # pragma: no cover
    """Planes to a flat row of one, three or four numbers a pixel; the fourth becomes 255."""
    if row.size == r.size:
        row[:] = r
    elif row.size == 3 * r.size:
        _join(r, g, b, row)
    else:
        _join_padded(r, g, b, row)


@njit(cache=True, nogil=True)
def _join_padded(r, g, b, row):  # pragma: no cover
    for x in range(r.size):
        row[4 * x], row[4 * x + 1], row[4 * x + 2] = r[x], g[x], b[x]
        row[4 * x + 3] = 255


@njit(cache=True, nogil=True)
def _join(r, g, b, row):  # pragma: no cover
    for x in range(r.size):
        row[3 * x], row[3 * x + 1], row[3 * x + 2] = r[x], g[x], b[x]


@njit(cache=True, nogil=True)
def widen(row, left, across, out):  # pragma: no cover
    """A line of the grid, interpolated to the pixels of a row."""
    last = row.size - 1
    for x in range(out.size):
        k = left[x]
        out[x] = row[k] + across[x] * (row[min(k + 1, last)] - row[k])


@njit(cache=True, nogil=True)
def _light(v, scale, steep, a0, a1, b0, b1, part, light):  # pragma: no cover
    """``I = clip(a V + b, steep V, 1)``."""
    for x in range(light.size):
        value = np.float32(v[x]) * scale
        a, b = a0[x] + part * (a1[x] - a0[x]), b0[x] + part * (b1[x] - b0[x])
        lowest = max(value * steep, np.float32(DARKEST))
        light[x] = min(max(a * value + b, lowest), _ONE)


@njit(cache=True, nogil=True)
def _gain(bits, gain, out):  # pragma: no cover
    for x in range(bits.size):
        out[x] = gain[uint64(uint32(bits[x] - LOWEST) >> uint32(SHIFT))]


@njit(cache=True, nogil=True)
def _lift(v, lift, scale, gain):  # pragma: no cover
    """The twin of :func:`tecu.lowlight.tone.lift_at`, on the gain; ``scale`` makes of gain times value ``x / h``."""
    for x in range(v.size):
        left = max(_ONE - np.float32(v[x]) * gain[x] * scale, _ZERO)
        gain[x] *= _ONE + lift * left * left


@njit(cache=True, nogil=True)
def _near_black(v, scale, grey_until, grey_most, dim_until, dim_most, gain, times, plus):  # pragma: no cover
    """A channel's result before the curve is ``times O + plus``: the gain, and what is nearly black loses colour."""
    for x in range(v.size):
        value = np.float32(v[x])
        t, deep = max(_ONE - value * scale * grey_until, _ZERO), max(_ONE - value * scale * dim_until, _ZERO)
        grey = grey_most * t * t
        most = gain[x] * (_ONE - dim_most * deep * deep * deep)
        times[x] = int32(most * (_ONE - grey))
        plus[x] = int32(most * grey * value)


@njit(cache=True, nogil=True)
def _places(plane, times, plus, places):  # pragma: no cover
    for x in range(plane.size):
        places[x] = uint32(uint32(plane[x]) * times[x] + plus[x]) >> uint32(BITS)


@njit(cache=True, nogil=True)
def _places_between(bare, times, plus, places):  # pragma: no cover
    """The same for values between the levels; float32 would round what is nearly white to white."""
    for x in range(bare.size):
        places[x] = uint32(np.float64(bare[x]) * times[x] + plus[x]) >> uint32(BITS)


@njit(cache=True, nogil=True)
def _look_up(places, table, plane):  # pragma: no cover
    for x in range(plane.size):
        plane[x] = table[uint64(places[x])]


@njit(cache=True, nogil=True)
def _look_up_pixels(first, second, third, table, row):  # pragma: no cover
    for x in range(first.size):
        row[3 * x] = table[uint64(first[x])]
        row[3 * x + 1] = table[uint64(second[x])]
        row[3 * x + 2] = table[uint64(third[x])]


@njit(cache=True, nogil=True)
def _look_up_words(first, second, third, table, words):  # pragma: no cover
    """Four bytes a pixel, the fourth 255, written as one number: the first byte is the lowest."""
    for x in range(words.size):
        low, high = uint32(table[uint64(first[x])]), uint32(table[uint64(third[x])])
        middle = uint32(table[uint64(second[x])])
        words[x] = low | (middle << uint32(8)) | (high << uint32(16)) | uint32(0xFF000000)


@njit(cache=True, nogil=True)
def _factors(v, lines, part, gain, numbers, floats, times, plus):  # pragma: no cover
    """``times`` and ``plus`` of pixels whose largest channel is ``v``, in levels."""
    _light(v, numbers[0], numbers[1], lines[0], lines[1], lines[2], lines[3], part, floats[0])
    _gain(floats[0].view(np.int32), gain, floats[1])
    if numbers[9] > _ZERO:
        _lift(v, numbers[9], numbers[10], floats[1])
    _near_black(v, numbers[0], numbers[2], numbers[3], numbers[4], numbers[5], floats[1], times, plus)


@njit(cache=True, nogil=True)
def _places_of_row(row, planes, v, lines, part, gain, numbers, floats, ints, places):  # pragma: no cover
    """``places[0], [1], [2]`` become the channels' places on the curve for a flat ``row``."""
    r, rgb = planes[0], row.size > v.size
    times, plus = ints[0], ints[1]
    if row.size == 3 * v.size:
        _split(row, r, planes[1], planes[2], v)
    elif rgb:
        _split_padded(row, r, planes[1], planes[2], v)
    else:
        r[:] = row
        v[:] = row
    if rgb and max(numbers[6], max(numbers[7], numbers[8])) > _ZERO:
        bare, brightest = floats[2:5], floats[5]
        brightest[:] = 0
        for c in range(3):
            _without_cast(planes[c], numbers[6 + c], numbers[0], bare[c], brightest)
        _factors(brightest, lines, part, gain, numbers, floats, times, plus)
        for c in range(3):
            _places_between(bare[c], times, plus, places[c])
    else:
        _factors(v, lines, part, gain, numbers, floats, times, plus)
        for c in range(3 if rgb else 1):
            _places(planes[c], times, plus, places[c])


@njit(cache=True, nogil=True)
def tone_row(row, planes, v, lines, part, gain, table, numbers, floats, ints, places):  # pragma: no cover
    """``planes[0], [1], [2]`` become the channels of the result for a flat ``row``; ``lines`` are of :func:`around`."""
    _places_of_row(row, planes, v, lines, part, gain, numbers, floats, ints, places)
    for c in range(3 if row.size > v.size else 1):
        _look_up(places[c], table, planes[c])


@njit(cache=True, nogil=True)
def tone_tile(flat, out, tile, slope, offset, top, down, left, across, gain, table, numbers):  # pragma: no cover
    """The result of a tile: rows ``tile[0]`` to ``tile[1]``, columns ``tile[2]`` to ``tile[3]``."""
    channels = flat.shape[1] // left.size
    columns = slice(channels * tile[2], channels * tile[3])
    left, across = left[tile[2] : tile[3]], across[tile[2] : tile[3]]
    width = left.size
    lines, floats = np.empty((4, width), np.float32), np.empty((6, width), np.float32)
    ints, places = np.empty((2, width), np.uint32), np.empty((3, width), np.uint16)
    planes, v = np.empty((3, width), flat.dtype), np.empty(width, flat.dtype)
    known = -1
    for y in range(tile[0], tile[1]):
        known = around(slope, offset, top[y], left, across, lines, known)
        _places_of_row(flat[y, columns], planes, v, lines, down[y], gain, numbers, floats, ints, places)
        if channels == 1:
            _look_up(places[0], table, out[y, columns])
        elif channels == 3:
            _look_up_pixels(places[0], places[1], places[2], table, out[y, columns])
        else:
            _look_up_words(places[0], places[1], places[2], table, out[y].view(np.uint32)[tile[2] : tile[3]])


@njit(cache=True, nogil=True)
def around(one, other, upper, left, across, lines, known):  # pragma: no cover
    """The lines of two maps above and below a row of pixels, interpolated along it; new ones in some twenty rows."""
    if upper != known:
        lower = min(upper + 1, one.shape[0] - 1)
        widen(one[upper], left, across, lines[0])
        widen(one[lower], left, across, lines[1])
        widen(other[upper], left, across, lines[2])
        widen(other[lower], left, across, lines[3])
    return upper
