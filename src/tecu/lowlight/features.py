"""What the networks see of a picture: logarithms, and a few numbers about the whole of it.

One definition serves training and use; a network is only as good as the agreement of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]

FLOOR = 1.0 / 255.0
"""Added before a logarithm: one step of an 8-bit picture."""

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in the luma (ITU-R BT.601)."""

PERCENTILES = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
SUMMARY_SIZE = 3 + len(PERCENTILES)


def luma(picture: Pixels) -> Pixels:
    """``0.299 R + 0.587 G + 0.114 B`` of an ``h x w x 3`` picture."""
    return np.asarray(picture @ LUMA.astype(picture.dtype, copy=False))


def brightest_of(picture: Pixels) -> Pixels:
    """``V = max(R, G, B)``, ``h x w``. (NumPy's ``max`` along the short axis takes ten times as long.)"""
    return np.maximum(np.maximum(picture[..., 0], picture[..., 1]), picture[..., 2])


def percentiles(values: Pixels, wanted: Sequence[float]) -> Pixels:
    """``np.percentile(values, wanted)`` from one sorting.

    >>> import numpy as np
    >>> percentiles(np.array([3.0, 1.0, 2.0]), [0.0, 25.0, 100.0]).tolist()
    [1.0, 1.5, 3.0]
    """
    ordered = np.sort(values, axis=None)
    place = np.asarray(wanted) / 100.0 * (ordered.size - 1)
    low = np.minimum(place.astype(np.intp), max(ordered.size - 2, 0))
    high = np.minimum(low + 1, ordered.size - 1)
    return np.asarray(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def log_scale(x: Pixels) -> Pixels:
    """``log((x + 1/255) / (1 + 1/255))``: 0 at white, -5.5 at black."""
    return np.asarray(np.log((x + FLOOR) / (1.0 + FLOOR)))


def summary(picture: Pixels) -> Pixels:
    """Mean and 95th percentile of ``log max(R, G, B)``, mean luma, luma percentiles: float32, ``SUMMARY_SIZE`` long.

    >>> import numpy as np
    >>> summary(np.ones((4, 4, 3), dtype=np.float32)).round(3).tolist()[:3]
    [0.0, 0.0, 1.0]
    """
    brightest = log_scale(brightest_of(picture))
    y = luma(picture)
    head = [brightest.mean(), *percentiles(brightest, [95.0]), y.mean()]
    return np.concatenate([head, percentiles(y, PERCENTILES)]).astype(np.float32)
