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

Pixels = np.ndarray[Any, Any]

LUMA_RADIUS, LUMA_FACTOR = 2, 1.4
COLOUR_RADIUS, COLOUR_FACTOR = 2, 3.0  # the radius counts cells of 2 x 2 pixels
LUMA_SHARE, COLOUR_SHARE = (1.0 / (2 * radius + 1) ** 2 for radius in (LUMA_RADIUS, COLOUR_RADIUS))
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


def smoothed(picture: Pixels, noise: Pixels, share: Pixels, white: float = 1.0) -> Pixels:
    """``picture`` (``h x w x c`` floats up to ``white``) with ``share`` of the smoothing for the local ``noise``.

    The readable twin of :func:`tecu.lowlight.kernels_denoise.smooth_tile`: sums and products are those of the kernel,
    in its order, so that levels of 8 or 16 bits, as float32, give the same floats.
    """
    kind: Any = picture.dtype.type
    scale = kind(1.0 / white)
    unit = kind(1.0) / scale
    planes = [picture[..., c] for c in range(picture.shape[2])]
    if len(planes) == 1:
        new = [unit * _luma_smoothed(planes[0] * scale, noise)]
    else:
        y = (kind(0.299) * planes[0] + kind(0.587) * planes[1] + kind(0.114) * planes[2]) * scale
        clean = _luma_smoothed(y, noise)
        guide, grey = (_cell_sums(plane) * kind(0.25) for plane in (clean, y))
        fits = [_guided(_cell_sums(planes[c]) * (kind(0.25) * scale) - grey, guide, noise) for c in (0, 2)]
        (ra, rb), (ba, bb) = ([_doubled(part, y.shape) for part in fit] for fit in fits)
        green = clean - kind(0.299 / 0.587) * (ra * clean + rb) - kind(0.114 / 0.587) * (ba * clean + bb)
        new = [unit * (clean + ra * clean + rb), unit * green, unit * (clean + ba * clean + bb)]
    return np.stack([old + share * (smooth - old) for old, smooth in zip(planes, new, strict=True)], axis=-1)


def _luma_smoothed(y: Pixels, noise: Pixels) -> Pixels:
    kind: Any = y.dtype.type
    mean = _window_sums(y, LUMA_RADIUS) * kind(LUMA_SHARE)
    variance = np.maximum(_window_sums(y * y, LUMA_RADIUS) * kind(LUMA_SHARE) - mean * mean, 0)
    level = kind(LUMA_FACTOR) * noise
    slope = variance / (variance + level * level + kind(EPS_FLOOR))
    offset = mean - slope * mean
    return np.asarray((_window_sums(slope, LUMA_RADIUS) * y + _window_sums(offset, LUMA_RADIUS)) * kind(LUMA_SHARE))


def _guided(p: Pixels, g: Pixels, noise: Pixels) -> tuple[Pixels, Pixels]:
    """Slope and offset, on cells, of the guided filter of ``p`` by ``g``."""
    kind: Any = p.dtype.type

    def mean(plane: Pixels) -> Pixels:
        return np.asarray(_window_sums(plane, COLOUR_RADIUS) * kind(COLOUR_SHARE))

    mean_g, mean_p = mean(g), mean(p)
    variance = np.maximum(mean(g * g) - mean_g * mean_g, 0)
    level = kind(COLOUR_FACTOR) * noise[::2, ::2]
    slope = (mean(p * g) - mean_g * mean_p) / (variance + level * level + kind(EPS_FLOOR))
    return mean(slope), mean(mean_p - slope * mean_g)


def _window_sums(plane: Pixels, radius: int) -> Pixels:
    """Sums over squares of side ``2 radius + 1``, the border repeated: down, then along the rows."""
    for axis in (0, 1):
        count = plane.shape[axis]
        padded = np.pad(plane, [(radius, radius) if axis == a else (0, 0) for a in (0, 1)], mode="edge")
        shifted = (padded[k : k + count] if axis == 0 else padded[:, k : k + count] for k in range(2 * radius + 1))
        plane = np.asarray(sum(shifted))
    return plane


def _cell_sums(plane: Pixels) -> Pixels:
    """Sums over cells of 2 x 2; a last odd row or column counts twice."""
    rows, columns = plane.shape
    even = np.pad(plane, [(0, rows % 2), (0, columns % 2)], mode="edge")
    return np.asarray(even[::2, ::2] + even[::2, 1::2] + even[1::2, ::2] + even[1::2, 1::2])


def _doubled(plane: Pixels, shape: tuple[int, ...]) -> Pixels:
    """Back to pixels: three quarters of a pixel's own cell and a quarter of the nearest other, along both axes."""
    for axis in (0, 1):
        place = np.arange(shape[axis])
        own, other = place // 2, np.clip(place // 2 - 1 + place % 2 * 2, 0, plane.shape[axis] - 1)
        plane = np.asarray(0.75 * plane.take(own, axis) + 0.25 * plane.take(other, axis), plane.dtype)
    return plane
