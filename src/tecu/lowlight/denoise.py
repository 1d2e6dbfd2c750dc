r"""Noise that the gain has brought up: measured, and smoothed only where it shows.

The noise is measured on ``R - G``, which has little of the scene in it: ``sigma`` is the median of ``|h|`` divided by
``.6745 * 6``, ``h`` the second difference along rows and columns. Most JPEG files have the colours at half the size,
and grey photos none: there the luma tells, where the scene is flat and dark (:func:`_noise_of_luma`), and the larger
one of both counts. The result's luma is smoothed by a guided filter
whose ``eps = (1.4 sigma A)^2 + 1e-5`` follows the local amplification ``A``, then both colour differences with the
smoothed luma as their guide. The floor of eps keeps flat skies free of blotches. The guided filter of the colours is
fitted on cells of 2 x 2 pixels and its coefficients are interpolated (He and Sun's fast guided filter).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight.grid import box_mean

Pixels = np.ndarray[Any, Any]

LUMA_RADIUS, LUMA_FACTOR = 2, 1.4
COLOUR_RADIUS, COLOUR_FACTOR = 2, 3.0  # the radius counts cells of 2 x 2 pixels
EPS_FLOOR = 1e-5
MARGIN = 2 * (LUMA_RADIUS + 2 * COLOUR_RADIUS) + 2  # rows that a strip must see beyond its own; even, as cells are
QUIET, LOUD = 2.0 / 255.0, 6.0 / 255.0  # below no smoothing, above all of it
UNLIFTED, LIFTED = 1.3, 2.2  # the same for the amplification
FAINT = 0.02  # a share so small is lost in rounding: it is taken for none, which saves time
BANDS = 48  # triples of rows on which the noise is measured
SEGMENT, FLATTEST = 16, 0.1  # pixels in a row that are looked at together, and which share of these is called flat
OF_NOISE = 0.56  # of noise alone, the mean of |h| / 6 sigma is below this in the flattest segments
BLACK, BRIGHT = 2.0 / 255.0, 0.5  # what is darker is cut off, what is brighter will not be lifted


def noise_level(pixels: Pixels, white: float) -> float:
    """The standard deviation of the noise of ``pixels`` (``h x w x c``) as a share of white.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(0.5, 0.05, (64, 64, 3))
    >>> bool(abs(noise_level(noise, 1.0) - 0.05) < 0.01)
    True
    """
    height, width, channels = pixels.shape
    if height < 3 or width < 3:
        return 0.0
    tops = np.unique(np.linspace(0, height - 3, min(BANDS, height - 2)).astype(np.intp))
    bands = pixels[tops[:, None] + np.arange(3)].astype(np.float32)
    bands /= white
    if channels == 1:
        return _noise_of_luma(bands[..., 0])
    of_colour = np.median(_second_difference(bands[..., 0] - bands[..., 1])) / (0.6745 * 6.0)
    return max(float(of_colour / np.sqrt(2.0)), _noise_of_luma(_luma(bands)))  # R - G has the noise of two channels


def _noise_of_luma(bands: Pixels) -> float:
    """The same where the scene is flat: the tenth of all short segments of rows that has least of everything.

    Only dark ones count, for these will be lifted; of black ones noise has been cut off.
    """
    second = _second_difference(bands)
    size = min(SEGMENT, second.shape[1])
    whole = second.shape[1] // size * size
    rough, level = (plane[:, :whole].reshape(len(bands), -1, size) for plane in (second, bands[:, 1, 1:-1]))
    dark = rough.mean(axis=2)[(level.mean(axis=2) > BLACK) & (level.max(axis=2) < BRIGHT)]
    return float(np.quantile(dark, FLATTEST)) / (OF_NOISE * 6.0) if dark.size else 0.0


def _second_difference(bands: Pixels) -> Pixels:
    """Its absolute value along both axes, of bands of three rows."""
    down = bands[:, 0] - 2.0 * bands[:, 1] + bands[:, 2]
    return np.asarray(np.abs(down[:, :-2] - 2.0 * down[:, 1:-1] + down[:, 2:]))


def _luma(picture: Pixels) -> Pixels:
    return np.asarray(0.299 * picture[..., 0] + 0.587 * picture[..., 1] + 0.114 * picture[..., 2])


def smoothing_share(noise: Pixels, amplification: Pixels) -> Pixels:
    """How much of the smoothing to take, 0 to 1, for noise of that size in the result after that amplification."""
    loud = _smooth_step((noise - QUIET) / (LOUD - QUIET))
    share = loud * _smooth_step((amplification - UNLIFTED) / (LIFTED - UNLIFTED))
    return np.asarray(np.where(share < FAINT, 0.0, share))


def _smooth_step(x: Pixels) -> Pixels:
    x = np.clip(x, 0.0, 1.0)
    return np.asarray(x * x * (3.0 - 2.0 * x))


def smoothed(picture: Pixels, noise: Pixels, share: Pixels) -> Pixels:
    """``picture`` (``h x w x c`` floats) with ``share`` of the smoothing for the local ``noise``.

    The readable twin of :func:`tecu.lowlight.kernels_denoise.smooth_tile`.
    """
    if picture.shape[2] == 1:
        plane = picture[..., 0]
        return np.asarray(plane + share * (_luma_smoothed(plane, noise) - plane))[..., None]
    y = _luma(picture)
    clean = _luma_smoothed(y, noise)
    red, blue = (_guided(picture[..., c] - y, clean, noise) for c in (0, 2))
    green = -(0.299 * red + 0.114 * blue) / 0.587
    smooth = np.stack([clean + red, clean + green, clean + blue], axis=-1)
    return np.asarray(picture + share[..., None] * (smooth - picture))


def _luma_smoothed(y: Pixels, noise: Pixels) -> Pixels:
    mean = box_mean(y, LUMA_RADIUS)
    variance = np.maximum(box_mean(y * y, LUMA_RADIUS) - mean * mean, 0.0)
    slope = variance / (variance + (LUMA_FACTOR * noise) ** 2 + EPS_FLOOR)
    return np.asarray(box_mean(slope, LUMA_RADIUS) * y + box_mean(mean - slope * mean, LUMA_RADIUS))


def _guided(plane: Pixels, guide: Pixels, noise: Pixels) -> Pixels:
    p, g = _halved(plane), _halved(guide)
    mean_g, mean_p = box_mean(g, COLOUR_RADIUS), box_mean(p, COLOUR_RADIUS)
    variance = np.maximum(box_mean(g * g, COLOUR_RADIUS) - mean_g * mean_g, 0.0)
    covariance = box_mean(g * p, COLOUR_RADIUS) - mean_g * mean_p
    slope = covariance / (variance + (COLOUR_FACTOR * noise[::2, ::2]) ** 2 + EPS_FLOOR)
    offset = box_mean(mean_p - slope * mean_g, COLOUR_RADIUS)
    return np.asarray(_doubled(box_mean(slope, COLOUR_RADIUS), guide.shape) * guide + _doubled(offset, guide.shape))


def _halved(plane: Pixels) -> Pixels:
    """Means over cells of 2 x 2; a last odd row or column counts twice."""
    rows, columns = plane.shape
    even = np.pad(plane, [(0, rows % 2), (0, columns % 2)], mode="edge")
    return np.asarray(0.25 * (even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]), plane.dtype)


def _doubled(plane: Pixels, shape: tuple[int, ...]) -> Pixels:
    """Back to pixels: three quarters of a pixel's own cell and a quarter of the nearest other, along both axes."""
    for axis in (0, 1):
        place = np.arange(shape[axis])
        own, other = place // 2, np.clip(place // 2 - 1 + place % 2 * 2, 0, plane.shape[axis] - 1)
        plane = np.asarray(0.75 * plane.take(own, axis) + 0.25 * plane.take(other, axis), plane.dtype)
    return plane
