"""The tone of a row of pixels, compiled: ``curve(O gain)``, the gain of :meth:`tecu.lowlight.tone.Tone.gain`.

Rows come flat, ``R G B R G B ...``, and are taken apart into planes. Everything but the two look-ups is vector code:
loops over one-dimensional slices. Indices are unsigned, and sums and products are cut to 32 bits at once, because the
compiler's 64 bits would halve the speed. There is no ``fastmath``: it gains nothing here, and the compiler would round
otherwise than NumPy does in :mod:`tecu.lowlight.tables`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.kernels.words import (
    Indices,
    Integer,
    Integers,
    LevelMatrix,
    Levels,
    NaturalMatrix,
    Naturals,
    ShortMatrix,
    Shorts,
    Single,
    SingleMatrix,
    Singles,
)
from tecu.lowlight.compiled import compiled, part, routine, scratch
from tecu.lowlight.fixed import BITS, DARKEST, LOWEST, SHIFT

Pixels = np.ndarray[Any, Any]

_ONE, _ZERO = np.float32(1.0), np.float32(0.0)


@routine
def _split(row: Levels, r: Levels, g: Levels, b: Levels, v: Levels) -> None:
    for x in range(r.size):
        first, second, third = row[3 * x], row[3 * x + 1], row[3 * x + 2]
        r[x], g[x], b[x] = first, second, third
        v[x] = max(first, max(second, third))


@routine
def _split_padded(row: Levels, r: Levels, g: Levels, b: Levels, v: Levels) -> None:
    for x in range(r.size):
        first, second, third = row[4 * x], row[4 * x + 1], row[4 * x + 2]
        r[x], g[x], b[x] = first, second, third
        v[x] = max(first, max(second, third))


@routine
def _without_cast(plane: Levels, cast: Single, scale: Single, bare: Singles, v: Singles) -> None:
    """``bare`` becomes what :func:`tecu.lowlight.exposure.without_cast` leaves; ``v`` the larger of it and that."""
    for x in range(plane.size):
        value = np.float32(plane[x])
        left = (_ONE - value * scale) * (_ONE - value * scale)
        bare[x] = max(value - cast * left * left, _ZERO)
        v[x] = max(v[x], bare[x])


@routine
def join(r: Levels, g: Levels, b: Levels, row: Levels) -> None:
    """Planes to a flat row of one, three or four numbers a pixel; the fourth becomes 255."""
    if row.size == r.size:
        for x in range(r.size):
            row[x] = r[x]
    elif row.size == 3 * r.size:
        _join(r, g, b, row)
    else:
        _join_padded(r, g, b, row)


@routine
def _join_padded(r: Levels, g: Levels, b: Levels, row: Levels) -> None:
    for x in range(r.size):
        row[4 * x], row[4 * x + 1], row[4 * x + 2] = r[x], g[x], b[x]
        row[4 * x + 3] = 255


@routine
def _join(r: Levels, g: Levels, b: Levels, row: Levels) -> None:
    for x in range(r.size):
        row[3 * x], row[3 * x + 1], row[3 * x + 2] = r[x], g[x], b[x]


@routine
def widen(row: Singles, left: Integers, across: Singles, out: Singles) -> None:
    """A line of the grid, interpolated to the pixels of a row."""
    last = row.size - 1
    for x in range(out.size):
        k = left[x]
        out[x] = row[k] + across[x] * (row[min(k + 1, last)] - row[k])


@routine
def _light(
    v: Any,
    scale: Single,
    steep: Single,
    a0: Singles,
    a1: Singles,
    b0: Singles,
    b1: Singles,
    part: Single,
    light: Singles,
) -> None:
    """``I = clip(a V + b, steep V, 1)``."""
    for x in range(light.size):
        value = np.float32(v[x]) * scale
        a, b = a0[x] + part * (a1[x] - a0[x]), b0[x] + part * (b1[x] - b0[x])
        lowest = max(value * steep, np.float32(DARKEST))
        light[x] = min(max(a * value + b, lowest), _ONE)


@routine
def _gain(bits: Indices, gain: Singles, out: Singles) -> None:
    for x in range(bits.size):
        out[x] = gain[np.uint64(np.uint32(bits[x] - LOWEST) >> np.uint32(SHIFT))]


@routine
def _lift(v: Any, lift: Single, scale: Single, gain: Singles) -> None:
    """The twin of :func:`tecu.lowlight.tone.lift_at`, on the gain; ``scale`` makes of gain times value ``x / h``."""
    for x in range(v.size):
        left = max(_ONE - np.float32(v[x]) * gain[x] * scale, _ZERO)
        gain[x] *= _ONE + lift * left * left


@routine
def _near_black(
    v: Any,
    scale: Single,
    grey_until: Single,
    grey_most: Single,
    dim_until: Single,
    dim_most: Single,
    gain: Singles,
    times: Naturals,
    plus: Naturals,
) -> None:
    """A channel's result before the curve is ``times O + plus``: the gain, and what is nearly black loses colour."""
    for x in range(v.size):
        value = np.float32(v[x])
        t, deep = max(_ONE - value * scale * grey_until, _ZERO), max(_ONE - value * scale * dim_until, _ZERO)
        grey = grey_most * t * t
        most = gain[x] * (_ONE - dim_most * deep * deep * deep)
        times[x] = np.int32(most * (_ONE - grey))
        plus[x] = np.int32(most * grey * value)


@routine
def _places(plane: Levels, times: Naturals, plus: Naturals, places: Shorts) -> None:
    for x in range(plane.size):
        places[x] = np.uint32(np.uint32(plane[x]) * times[x] + plus[x]) >> np.uint32(BITS)


@routine
def _places_between(bare: Singles, times: Naturals, plus: Naturals, places: Shorts) -> None:
    """The same for values between the levels; float32 would round what is nearly white to white."""
    for x in range(bare.size):
        places[x] = np.uint32(np.float64(bare[x]) * times[x] + plus[x]) >> np.uint32(BITS)


@routine
def _look_up(places: Shorts, table: Levels, plane: Levels) -> None:
    for x in range(plane.size):
        plane[x] = table[np.uint64(places[x])]


@routine
def _look_up_pixels(first: Shorts, second: Shorts, third: Shorts, table: Levels, row: Levels) -> None:
    for x in range(first.size):
        row[3 * x] = table[np.uint64(first[x])]
        row[3 * x + 1] = table[np.uint64(second[x])]
        row[3 * x + 2] = table[np.uint64(third[x])]


@routine
def _look_up_words(first: Shorts, second: Shorts, third: Shorts, table: Levels, words: Naturals) -> None:
    """Four bytes a pixel, the fourth 255, written as one number: the first byte is the lowest."""
    for x in range(words.size):
        low, high = np.uint32(table[np.uint64(first[x])]), np.uint32(table[np.uint64(third[x])])
        middle = np.uint32(table[np.uint64(second[x])])
        words[x] = low | (middle << np.uint32(8)) | (high << np.uint32(16)) | np.uint32(0xFF000000)


@routine
def _factors(
    v: Any,
    lines: SingleMatrix,
    part: Single,
    gain: Singles,
    numbers: Singles,
    floats: SingleMatrix,
    times: Naturals,
    plus: Naturals,
) -> None:
    """``times`` and ``plus`` of pixels whose largest channel is ``v``, in levels."""
    _light(v, numbers[0], numbers[1], lines[0], lines[1], lines[2], lines[3], part, floats[0])
    _gain(floats[0].view(np.int32), gain, floats[1])
    if numbers[9] > _ZERO:
        _lift(v, numbers[9], numbers[10], floats[1])
    _near_black(v, numbers[0], numbers[2], numbers[3], numbers[4], numbers[5], floats[1], times, plus)


@routine
def _places_of_row(
    row: Levels,
    planes: LevelMatrix,
    v: Levels,
    lines: SingleMatrix,
    part: Single,
    gain: Singles,
    numbers: Singles,
    floats: SingleMatrix,
    ints: NaturalMatrix,
    places: ShortMatrix,
) -> None:
    """``places[0], [1], [2]`` become the channels' places on the curve for a flat ``row``."""
    r, rgb = planes[0], row.size > v.size
    times, plus = ints[0], ints[1]
    if row.size == 3 * v.size:
        _split(row, r, planes[1], planes[2], v)
    elif rgb:
        _split_padded(row, r, planes[1], planes[2], v)
    else:
        for x in range(v.size):
            r[x] = v[x] = row[x]
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


@routine
def tone_row(
    row: Levels,
    planes: LevelMatrix,
    v: Levels,
    lines: SingleMatrix,
    part: Single,
    gain: Singles,
    table: Levels,
    numbers: Singles,
    floats: SingleMatrix,
    ints: NaturalMatrix,
    places: ShortMatrix,
) -> None:
    """``planes[0], [1], [2]`` become the channels of the result for a flat ``row``; ``lines`` are of :func:`around`."""
    _places_of_row(row, planes, v, lines, part, gain, numbers, floats, ints, places)
    for c in range(3 if row.size > v.size else 1):
        _look_up(places[c], table, planes[c])


@compiled
def tone_tile(
    flat: LevelMatrix,
    out: LevelMatrix,
    tile: Integers,
    slope: SingleMatrix,
    offset: SingleMatrix,
    top: Integers,
    down: Singles,
    left: Integers,
    across: Singles,
    gain: Singles,
    table: Levels,
    numbers: Singles,
    planes: LevelMatrix,
    places: ShortMatrix,
    ints: NaturalMatrix,
    floats: SingleMatrix,
) -> None:
    """The result of a tile: rows ``tile[0]`` to ``tile[1]``, columns ``tile[2]`` to ``tile[3]``.

    What follows ``numbers`` is scratch, by :func:`room_for_tone`.
    """
    channels = flat.shape[1] // left.size
    columns = slice(channels * tile[2], channels * tile[3])
    left, across = left[tile[2] : tile[3]], across[tile[2] : tile[3]]
    lines, floats, v, known = floats[6:], floats[:6], planes[3], -1
    for y in range(tile[0], tile[1]):
        known = around(slope, offset, top[y], left, across, lines, known)
        _places_of_row(flat[y, columns], planes, v, lines, down[y], gain, numbers, floats, ints, places)
        if channels == 1:
            _look_up(places[0], table, out[y, columns])
        elif channels == 3:
            _look_up_pixels(places[0], places[1], places[2], table, out[y, columns])
        else:
            _look_up_words(places[0], places[1], places[2], table, out[y].view(np.uint32)[tile[2] : tile[3]])


def room_for_tone(tile: tuple[int, int, int, int], dtype: np.dtype[Any]) -> tuple[Pixels, ...]:
    """Scratch for :func:`tone_tile`."""
    width = tile[3] - tile[2]
    levels, places = scratch((4, width), dtype), scratch((3, width), np.uint16)
    return levels, places, scratch((2, width), np.uint32), scratch((10, width), np.float32)


@part
def around(
    one: SingleMatrix,
    other: SingleMatrix,
    upper: Integer,
    left: Integers,
    across: Singles,
    lines: SingleMatrix,
    known: Integer,
) -> Integer:
    """The lines of two maps above and below a row of pixels, interpolated along it; new ones in some twenty rows."""
    if upper != known:
        lower = min(upper + 1, one.shape[0] - 1)
        widen(one[upper], left, across, lines[0])
        widen(one[lower], left, across, lines[1])
        widen(other[upper], left, across, lines[2])
        widen(other[lower], left, across, lines[3])
    return upper
