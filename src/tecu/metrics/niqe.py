"""Natural image quality evaluator (Mittal, Soundararajan and Bovik 2013)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tecu.metrics._images import Floats, as_image, on_255

BLOCK = 96
GREY = (0.298936021293775, 0.587043074451121, 0.114020904255103)  # rgb2gray: the Y row of the inverse of YIQ
FLAT = 1e-9  # grey levels; a deviation below this is rounding
ORIGIN = (
    "36 means and their covariance from 125 pristine photos, as released by the authors (LIVE, UT Austin, "
    "2012) and redistributed in basicsr 1.4.2"
)
NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))


def niqe(image: Any) -> float:
    r"""``sqrt((m - m0)^T ((S + S0) / 2)^-1 (m - m0))``: how unlike pristine photos the picture is.

    ``m, S`` are mean and covariance over 96 x 96 blocks of 36 shape figures of the locally normalised
    luminance and its neighbour products, at full and half size; ``m0, S0`` are the published ones
    (:data:`ORIGIN`). Lower is better *as a rule*: the score rewards over-sharp pictures, and a dark photo can
    score better than its good enhancement. Read it beside the score of the untouched input, never alone.

    Luminance is ``rgb2gray`` on 0 to 255, rounded. The figure agrees with the authors' program to 12 digits
    where no neighbourhood is perfectly flat. Where one is (clipped skies, JPEG blocks), ``x - mean(x)`` is
    zero up to rounding and the original counts the pixel as positive or negative by the *sign of the rounding
    error*, which depends on the order of summation: that moves the score by up to 5 % between ports. Here
    such a pixel counts as zero.

    The picture must hold at least two whole blocks (192 x 96). ``nan`` if no two blocks have any texture.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).integers(0, 255, (192, 192), dtype=np.uint8)
    >>> niqe(noise) > 10
    True
    """
    grey = _luminance(as_image(image, "image"))
    rows, columns = (n // BLOCK for n in grey.shape)
    if rows * columns < 2:
        raise ValueError(f"niqe needs two blocks of {BLOCK} x {BLOCK} pixels, got {grey.shape[1]} x {grey.shape[0]}")
    grey = grey[: rows * BLOCK, : columns * BLOCK]
    features = np.hstack([_features(grey, BLOCK), _features(_half(grey), BLOCK // 2)])
    whole = features[~np.isnan(features).any(axis=1)]
    if len(whole) < 2:
        return float("nan")
    mean0, covariance0 = _parameters()
    apart = mean0 - np.nanmean(features, axis=0)
    inverse = np.linalg.pinv((covariance0 + np.cov(whole, rowvar=False)) / 2)
    return float(np.sqrt(apart @ inverse @ apart))


@cache
def _parameters() -> tuple[Floats, Floats]:
    with resources.files("tecu.metrics").joinpath("niqe_parameters.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        return stored["mean"], stored["covariance"]


def _luminance(array: NDArray[Any]) -> Floats:
    if array.ndim == 3:
        channels = array.shape[2]
        if channels not in (1, 3):
            raise ValueError(f"niqe takes grey (1 channel) or RGB (3 channels), got {channels} channels")
        array = array[..., 0] if channels == 1 else array
    values = on_255(array)
    grey = np.rint(values if values.ndim == 2 else values @ np.array(GREY))
    if not np.all(np.isfinite(grey)):
        raise ValueError("niqe: the image holds values that are not finite")
    return np.asarray(grey, dtype=np.float64)


def _half(grey: Floats) -> Floats:
    """Half the size by anti-aliased bicubic interpolation, edges mirrored."""
    from scipy import ndimage

    x = np.abs(np.arange(8) - 3.5) / 2
    weights = np.where(x <= 1, 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2)
    weights /= weights.sum()
    for axis in (0, 1):
        # origin=-1 centres the eight taps between an even pixel and the next
        grey = ndimage.correlate1d(grey, weights, axis=axis, mode="reflect", origin=-1)
        grey = grey[::2] if axis == 0 else grey[:, ::2]
    return grey


def _features(grey: Floats, block: int) -> Floats:
    """18 figures a block: shape and scale of the normalised luminance and of its neighbour products."""
    rows, columns = grey.shape[0] // block, grey.shape[1] // block
    normal = _normalised(grey).reshape(rows, block, columns, block).swapaxes(1, 2)
    return np.concatenate([_strip(blocks) for blocks in normal])  # a strip of blocks at a time stays in the cache


def _normalised(grey: Floats) -> Floats:
    """``(x - mean) / (deviation + 1)`` in a 7 x 7 Gaussian window of deviation 7/6."""
    from scipy import ndimage

    window = np.exp(-(np.arange(-3, 4) ** 2) / (2 * (7 / 6) ** 2))
    window /= window.sum()

    def smooth(x: Floats) -> Floats:
        down = ndimage.correlate1d(x, window, axis=0, mode="nearest")
        return np.asarray(ndimage.correlate1d(down, window, axis=1, mode="nearest"))

    mean = smooth(grey)
    deviation = np.sqrt(np.abs(smooth(grey * grey) - mean * mean))
    apart = grey - mean
    apart[np.abs(apart) < FLAT] = 0.0
    return np.asarray(apart / (deviation + 1.0))


def _strip(blocks: Floats) -> Floats:
    """The figures of blocks ``(n, block, block)`` as ``(n, 18)``."""
    from scipy.special import gamma

    shape, left, right = _fit(blocks)
    columns = [shape, (left + right) / 2]
    for shift in NEIGHBOURS:
        shape, left, right = _fit(blocks * np.roll(blocks, shift, axis=(1, 2)))
        columns += [shape, (right - left) * gamma(2 / shape) / gamma(1 / shape), left, right]
    return np.stack(columns, axis=1)


def _fit(blocks: Floats) -> tuple[Floats, Floats, Floats]:
    """Shape and both scales of an asymmetric generalised Gaussian, by moments; ``nan`` for a flat block."""
    from scipy.special import gamma

    values = blocks.reshape(len(blocks), -1)
    squares, below = values * values, values < 0
    sum_all, sum_left = squares.sum(axis=1), (squares * below).sum(axis=1)
    count_left = below.sum(axis=1)
    count_right = (values > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.sqrt(sum_left / count_left)
        right = np.sqrt((sum_all - sum_left) / count_right)
        ratio = left / right
        moment = np.abs(values).sum(axis=1) ** 2 / (values.shape[1] * sum_all)
        moment *= (ratio**3 + 1) * (ratio + 1) / (ratio**2 + 1) ** 2
    shapes, moments = _shape_table()
    at = np.clip(np.searchsorted(moments, moment), 1, len(moments) - 1)  # the nearest entry: at or the one before
    at = at - (moment - moments[at - 1] < moments[at] - moment)
    shape = shapes[np.where(np.isnan(moment), 0, at)]
    scale = np.sqrt(gamma(1 / shape) / gamma(3 / shape))
    return shape, left * scale, right * scale


@cache
def _shape_table() -> tuple[Floats, Floats]:
    """Shapes from 0.2 to 10 and ``gamma(2/a)^2 / (gamma(1/a) gamma(3/a))``, which rises with the shape."""
    from scipy.special import gamma

    shapes = np.arange(0.2, 10.001, 0.001)
    return shapes, gamma(2 / shapes) ** 2 / (gamma(1 / shapes) * gamma(3 / shapes))
