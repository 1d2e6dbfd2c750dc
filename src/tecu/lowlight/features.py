"""What the networks see of a picture: logarithms, and a few numbers about the whole of it.

One definition serves training and use; a network is only as good as the agreement of the two.
"""

from __future__ import annotations

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


def log_scale(x: Pixels) -> Pixels:
    """``log((x + 1/255) / (1 + 1/255))``: 0 at white, -5.5 at black."""
    return np.asarray(np.log((x + FLOOR) / (1.0 + FLOOR)))


def summary(picture: Pixels) -> Pixels:
    """Mean and 95th percentile of ``log max(R, G, B)``, mean luma, luma percentiles: float32, ``SUMMARY_SIZE`` long.

    >>> import numpy as np
    >>> summary(np.ones((4, 4, 3), dtype=np.float32)).round(3).tolist()[:3]
    [0.0, 0.0, 1.0]
    """
    brightest = log_scale(picture.max(axis=-1))
    y = luma(picture)
    head = [brightest.mean(), np.percentile(brightest, 95.0), y.mean()]
    return np.concatenate([head, np.percentile(y, PERCENTILES)]).astype(np.float32)
