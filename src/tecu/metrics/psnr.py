"""Peak signal-to-noise ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.metrics._images import as_pair, value_range


def psnr(image: Any, reference: Any, *, data_range: float | None = None) -> float:
    r"""``10 log10(range^2 / mean((image - reference)^2))`` in dB over all pixels and channels.

    This is the plain figure: nothing is scaled to the reference first. ``data_range`` is 255 for ``uint8``,
    65535 for ``uint16`` and 1 for floats unless given. Equal images give ``inf``.

    >>> import numpy as np
    >>> round(psnr(np.full((4, 4), 110, np.uint8), np.full((4, 4), 100, np.uint8)), 2)
    28.13
    """
    first, second = as_pair(image, reference)
    peak = value_range(first) if data_range is None else float(data_range)
    # Row by row: a float64 copy of a large photo would be eight times the photo.
    total = sum(
        float(np.sum(np.square(np.subtract(a, b, dtype=np.float64)))) for a, b in zip(first, second, strict=True)
    )
    error = total / first.size
    return float("inf") if error == 0.0 else float(10.0 * np.log10(peak * peak / error))


def psnr_gt_mean(image: Any, reference: Any) -> float:
    """PSNR after ``image`` is scaled to the mean of ``reference`` ("GT-mean"), which peeks at the answer.

    Published beside the plain figure and 2 to 5 dB above it; never compare the two.

    >>> import numpy as np
    >>> psnr_gt_mean(np.full((4, 4), 0.2), np.full((4, 4), 0.4))
    inf
    """
    first, second = as_pair(image, reference)
    peak = value_range(first)
    a, b = first.astype(np.float64) / peak, second.astype(np.float64) / peak
    scaled = np.clip(a * (b.mean() / max(float(a.mean()), 1e-12)), 0.0, 1.0)
    return psnr(scaled, b)
