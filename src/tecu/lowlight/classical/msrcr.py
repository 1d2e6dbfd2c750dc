r"""MSRCR: multi-scale Retinex with colour restoration (Rahman, Jobson and Woodell, 2004).

``R_i = C_i sum_k (log I_i - log (F_k * I_i)) / 3`` with Gaussians ``F_k`` of 15, 80 and 250 pixels, and the colour
restoration ``C_i = log(125 I_i / sum_j I_j)``, which is constant for grey. ``I`` is on 0 to 255, one added before
the logarithm. The publication's gain and offset (192 and -30) do not fit its own formula, as others have found; the
last step is the one that Petro, Sbert and Morel (2014) put in their place, the simplest colour balance: each channel
is stretched with its lowest and highest hundredth clipped, the published default. Ten LOL pairs: 13.09 dB, where
13.17 are commonly quoted for multi-scale Retinex; other stretches gave 7.9 to 17.7.
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
    return finished(balanced(restored, channels).reshape(picture.shape), image)


def balanced(restored: Picture, channels: Picture) -> Picture:
    """Each channel from its lowest to its highest hundredth on [0, 1]; one without contrast stays as it was."""
    low, high = (q.astype(np.float32) for q in np.quantile(restored, [CLIPPED, 1.0 - CLIPPED], axis=(0, 1)))
    flat = ~(high - low > 1e-6)
    stretched = (restored - low) / np.where(flat, np.float32(1.0), high - low)
    return np.asarray(np.where(flat, (channels - np.float32(1.0)) / np.float32(255.0), stretched))


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
