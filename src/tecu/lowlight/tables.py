r"""The tone of 8 or 16 bits by tables, in NumPy: to the byte what the kernels make of it.

    result = curve(O gain)

The gain is looked up by the leading bits of the illumination, the curve at a place that is computed in whole numbers.
Sums and products are those of :mod:`tecu.lowlight.kernels_tone`, in the same order and precision: so it does not matter
which of the two has made a picture, and the quicker one may be taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight.exposure import NEARLY_BLACK, Exposure, black_until, gain_share
from tecu.lowlight.fixed import BITS, DARKEST, LOWEST, SHIFT
from tecu.lowlight.grid import enlarge, positions, whitepoint

Pixels = np.ndarray[Any, Any]

SIZE = {np.dtype(np.uint8): 1 << 14, np.dtype(np.uint16): 1 << 16}  # of the curve's table: near black it is steep


def scene(exposure: Exposure, shape: tuple[int, int], dtype: Any) -> tuple[Any, ...]:
    """What is needed of an exposure: maps and places on the grid, tables, numbers."""
    rows, columns = positions(shape[0], exposure.slope.shape[0]), positions(shape[1], exposure.slope.shape[1])
    white = whitepoint(dtype)
    gain = gains(exposure.tone.exponent, SIZE[np.dtype(dtype)] * 2**BITS / white)
    cast = white * gain_share(exposure.tone.exponent) * np.array(exposure.cast)
    lift = exposure.tone.lift, 1.0 / (SIZE[np.dtype(dtype)] * 2**BITS * exposure.headroom)
    numbers = np.array([1.0 / white, 1.0 / exposure.headroom, *black(exposure), *cast, *lift], dtype=np.float32)
    maps = (np.ascontiguousarray(part, dtype=np.float32) for part in (exposure.slope, exposure.offset))
    return (*maps, *rows, *columns, gain, table_of(exposure, dtype), numbers)


def gains(exponent: float, unit: float) -> Pixels:
    """``unit I^-exponent`` for I from the darkest to 1, indexed by the leading bits of I as a float."""
    count = ((int(np.float32(1.0).view(np.int32)) - LOWEST) >> SHIFT) + 1
    bits = (LOWEST + (np.arange(count, dtype=np.int64) << SHIFT) + (1 << (SHIFT - 1))).astype(np.int32)
    light = bits.view(np.float32).astype(np.float64)
    light[-1] = 1.0
    return np.asarray(unit * light**-exponent, dtype=np.float32)


def black(exposure: Exposure) -> tuple[float, float, float, float]:
    """The numbers of :func:`tecu.lowlight.exposure.near_black`: two ranges, inverted, and two strengths."""
    strength = gain_share(exposure.tone.exponent)
    reach = black_until(exposure.highlights)
    return 1.0 / NEARLY_BLACK, strength, 1.0 / reach, (0.9 + 0.1 * exposure.highlights) * strength


def table_of(exposure: Exposure, dtype: Any) -> Pixels:
    """The curve as a table of results; only entries that none but a white value reaches are white."""
    size, white = SIZE[np.dtype(dtype)], whitepoint(dtype)
    curve = exposure.tone.curve
    place = np.minimum((np.arange(size + 2) + 0.5) / size, 1.0)
    place[0] = 0.0  # which nothing but black reaches: near it a steep curve rises far within one entry
    values = np.rint(np.interp(place, np.linspace(0.0, 1.0, len(curve)), curve) * white)
    nearly = int((white - 1.0) * size / white) + 1
    values[:nearly] = np.minimum(values[:nearly], white - 1.0)
    values[nearly:] = np.rint(curve[-1] * white)
    return values.astype(dtype)


def toned(pixels: Pixels, parts: tuple[Any, ...], shape: tuple[int, int], rows: slice) -> Pixels:
    """The result for ``pixels``, ``rows`` of a picture of that ``shape``; ``parts`` are those of :func:`scene`.

    The readable twin of :func:`tecu.lowlight.kernels_tone.tone_row`.
    """
    gain, table, numbers = parts[6:]
    scale, steep, grey_until, grey_most, dim_until, dim_most = numbers[:6]
    cast, (lift, lift_scale) = numbers[6:9], numbers[9:]
    has_cast = pixels.shape[2] == 3 and bool(np.any(cast > 0))
    observed = _bare(pixels, cast, scale) if has_cast else pixels
    value = observed.max(axis=-1).astype(np.float32)
    slope, offset = (enlarge(plane, shape, rows) for plane in parts[:2])
    lowest = np.maximum(value * scale * steep, np.float32(DARKEST))
    light = np.minimum(np.maximum(slope * (value * scale) + offset, lowest), np.float32(1.0))
    factor = gain[(light.view(np.int32) - np.int32(LOWEST)) >> SHIFT]
    if lift > 0.0:
        left = np.maximum(1 - value * factor * lift_scale, 0)
        factor = factor * (1 + lift * left * left)
    t, deep = (np.maximum(1 - value * scale * until, 0) for until in (grey_until, dim_until))
    grey, most = grey_most * t * t, factor * (1 - dim_most * deep * deep * deep)
    times, plus = (most * (1 - grey)).astype(np.uint32)[..., None], (most * grey * value).astype(np.uint32)[..., None]
    if has_cast:
        places = (observed.astype(np.float64) * times + plus).astype(np.uint32)
    else:
        places = observed.astype(np.uint32) * times + plus
    return np.asarray(table[places >> np.uint32(BITS)])


def _bare(pixels: Pixels, cast: Pixels, scale: Any) -> Pixels:
    """What :func:`tecu.lowlight.exposure.without_cast` leaves, in levels that are not rounded: the gain is large."""
    value = pixels.astype(np.float32)
    left = (1 - value * scale) * (1 - value * scale)
    return np.asarray(np.maximum(value - cast * left * left, 0))
