"""Structural similarity."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tecu.metrics._images import Floats, as_pair, value_range

K1, K2 = 0.01, 0.03
SIGMA, TRUNCATE = 1.5, 3.5  # the Gaussian window of Wang et al. 2004: 11 x 11


def ssim(
    image: Any,
    reference: Any,
    *,
    window: Literal["uniform", "gaussian"] = "uniform",
    size: int | None = None,
    sample_covariance: bool = True,
    data_range: float | None = None,
) -> float:
    r"""``(2 mx my + c1)(2 sxy + c2) / ((mx^2 + my^2 + c1)(sx^2 + sy^2 + c2))``, mean over all windows.

    ``mx, sx, sxy`` are a window's mean, variance and covariance, ``c1 = (0.01 range)^2``, ``c2 = (0.03
    range)^2``. The window is uniform (7 x 7 unless ``size`` says otherwise) or Gaussian (sigma 1.5, 11 x 11);
    only windows that lie inside the picture count. ``window="gaussian", sample_covariance=False`` is the
    original of Wang et al. 2004; the default equals scikit-image's default.

    >>> import numpy as np
    >>> ramp = np.linspace(0, 1, 400).reshape(20, 20)
    >>> ssim(ramp, ramp), round(ssim(ramp, ramp[::-1]), 3) < 0.5
    (1.0, True)
    """
    first, second = as_pair(image, reference)
    smooth, size = _window(window, size)
    if min(first.shape[:2]) < size:
        raise ValueError(f"ssim: the window is {size} pixels wide, the image only {first.shape[1]} x {first.shape[0]}")
    peak = value_range(first) if data_range is None else float(data_range)
    factor = size**2 / (size**2 - 1) if sample_covariance else 1.0
    if first.ndim == 2:
        first, second = first[..., np.newaxis], second[..., np.newaxis]
    scores = [
        _channel(first[..., c].astype(np.float64), second[..., c].astype(np.float64), smooth, size, peak, factor)
        for c in range(first.shape[2])
    ]
    return float(np.mean(scores))


def _window(window: str, size: int | None) -> tuple[Any, int]:
    from scipy import ndimage

    if window == "uniform":
        size = 7 if size is None else size
        if size < 3 or size % 2 == 0:
            raise ValueError(f"ssim: size must be odd and at least 3, got {size}")
        return (lambda x: ndimage.uniform_filter(x, size=size)), size
    if window == "gaussian":
        if size is not None:
            raise ValueError("ssim: the Gaussian window has a fixed size of 11; give size only with window='uniform'")
        return (lambda x: ndimage.gaussian_filter(x, SIGMA, truncate=TRUNCATE)), 2 * int(TRUNCATE * SIGMA + 0.5) + 1
    raise ValueError(f"ssim: window must be 'uniform' or 'gaussian', got {window!r}")


def _channel(x: Floats, y: Floats, smooth: Any, size: int, peak: float, factor: float) -> float:
    c1, c2 = (K1 * peak) ** 2, (K2 * peak) ** 2
    mx, my = smooth(x), smooth(y)
    # sx^2 and sy^2 only occur as their sum: one pass less.
    variances = factor * (smooth(x * x + y * y) - mx * mx - my * my)
    covariance = factor * (smooth(x * y) - mx * my)
    score = ((2 * mx * my + c1) * (2 * covariance + c2)) / ((mx * mx + my * my + c1) * (variances + c2))
    inside = slice(size // 2, -(size // 2))
    return float(score[inside, inside].mean())
