"""The small grid on which a picture is decomposed, and the way back to its pixels.

Illumination is smooth, so it is found on a grid whose longest side is 112. On the way back it follows the edges of the
picture: on the grid ``I = a V + b`` is fitted in small windows (He and Sun's guided filter), and the smooth maps ``a``
and ``b`` are interpolated instead of ``I``, ``V = max(R, G, B)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

Pixels = np.ndarray[Any, Any]

LONGEST_SIDE = 112  # the networks were trained on 192; a third of the time, the same to 0.02 dB on pairs
LARGE = 700_000  # pixels from which the compiled kernels pay: to load them takes as long as some of these
RADIUS = 2  # of the windows of the fit
FLATNESS = 1e-3  # variance of V below which a window counts as flat and I is not made to follow V


def whitepoint(dtype: Any) -> float:
    """The value that is white: 255, 65535, or 1 for floats."""
    dtype = np.dtype(dtype)
    return float(np.iinfo(dtype).max) if dtype.kind == "u" else 1.0


def shrink(pixels: Pixels, longest: int = LONGEST_SIDE) -> Pixels:
    """``pixels`` (``h x w x 3``) as float32 in [0, 1], averaged down until no side exceeds ``longest``."""
    height, width = pixels.shape[:2]
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    if scale >= 1.0:
        return np.asarray(pixels, dtype=np.float32) / np.float32(whitepoint(pixels.dtype))
    if pixels.dtype == np.uint8:
        if height * width >= LARGE:
            from tecu.lowlight import kernels

            return kernels.shrink(pixels, (size[1], size[0]))
        gap = 3.0 if scale < 1 / 6 else None  # whole cells are averaged first: half the time, the same picture
        # As floats: means of black with a few levels of noise would be rounded to black that is free of it.
        bands = [band.convert("F") for band in Image.fromarray(pixels).split()]
        planes = [np.asarray(band.resize(size, Image.Resampling.BOX, reducing_gap=gap)) for band in bands]
        return np.stack(planes, axis=-1) / np.float32(255)
    return _cell_means(pixels, _edges(height, size[1]), _edges(width, size[0])) / np.float32(whitepoint(pixels.dtype))


def _edges(length: int, count: int) -> Pixels:
    """Where ``count`` cells of whole pixels begin, and the last ends: as Pillow's BOX has them.

    >>> _edges(10, 4).tolist()
    [0, 3, 5, 8, 10]
    """
    return (2 * length * np.arange(count + 1) + count) // (2 * count)


def _cell_means(pixels: Pixels, down: Pixels, across: Pixels) -> Pixels:
    """Means over the cells of a grid with these edges, float32."""
    out = np.empty((len(down) - 1, len(across) - 1, pixels.shape[2]), dtype=np.float32)
    for means, top, end in zip(out, down, down[1:], strict=False):
        columns = pixels[top:end].sum(axis=0, dtype=np.float32)
        means[:] = np.add.reduceat(columns, across[:-1], axis=0) / ((end - top) * np.diff(across)[:, None])
    return out


def box_mean(plane: Pixels, radius: int) -> Pixels:
    """Means over squares of side ``2 radius + 1``, the border repeated. (Importing SciPy's would take longer.)"""
    for axis in (0, 1):
        count = plane.shape[axis]
        padded = np.pad(plane, [(radius, radius) if axis == a else (0, 0) for a in (0, 1)], mode="edge")
        total = sum(padded[k : k + count] if axis == 0 else padded[:, k : k + count] for k in range(2 * radius + 1))
        plane = total / np.asarray(2 * radius + 1, dtype=plane.dtype)
    return plane


def following(light: Pixels, brightest: Pixels) -> tuple[Pixels, Pixels]:
    """``(a, b)`` with ``light`` close to ``a brightest + b`` in every window, both smooth; ``0 <= a``."""

    def mean(x: Pixels) -> Pixels:
        return box_mean(x, RADIUS)

    mean_v, mean_i = mean(brightest), mean(light)
    covariance = mean(brightest * light) - mean_v * mean_i
    variance = mean(brightest * brightest) - mean_v * mean_v
    slope = np.maximum(covariance, 0.0) / (np.maximum(variance, 0.0) + FLATNESS)
    return mean(slope).astype(np.float32), mean(mean_i - slope * mean_v).astype(np.float32)


def positions(length: int, count: int) -> tuple[Pixels, Pixels]:
    """For each of ``length`` pixels, the cell left of it on a grid of ``count`` and the way to the next, in [0, 1]."""
    place = np.clip((np.arange(length) + 0.5) * (count / length) - 0.5, 0.0, count - 1.0)
    left = np.minimum(place.astype(np.int64), max(count - 2, 0))
    return left, (place - left).astype(np.float32)


def enlarge(plane: Pixels, shape: tuple[int, int], rows: slice = slice(None)) -> Pixels:
    """``rows`` of ``plane`` interpolated to ``shape``, linear between the centres of its cells; along rows first."""
    top, down = (part[rows] for part in positions(shape[0], plane.shape[0]))
    left, across = positions(shape[1], plane.shape[1])
    below, right = np.minimum(top + 1, plane.shape[0] - 1), np.minimum(left + 1, plane.shape[1] - 1)
    first = top[0]
    lines = plane[first : below[-1] + 1]
    wide = lines[:, left] + across * (lines[:, right] - lines[:, left])
    upper = wide[top - first]
    return np.asarray(upper + down[:, None] * (wide[below - first] - upper))
