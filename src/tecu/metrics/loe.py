"""Lightness order error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tecu.metrics._images import as_image, on_255

SHORT_SIDE = 50  # the authors' code shrinks to this
MAX_PIXELS = 20_000  # a panorama is shrunk further: the work grows with the square
_CHUNK = 1 << 23  # comparisons at a time


def loe(image: Any, reference: Any) -> float:
    r"""How often the order of lightness of two pixels differs: ``mean_x sum_y [U(x, y) != U_ref(x, y)]``.

    ``U(x, y) = (L(x) >= L(y))``, ``L`` the largest channel, over all pairs of pixels of the shrunken pictures
    (Wang, Zheng, Hu and Li 2013). Here ``reference`` is the *untouched input*, ``image`` its enhancement; 0
    is best. As in the authors' code both are shrunk (anti-aliased bicubic) to a shorter side of 50 pixels and
    rounded to 256 levels. The figure grows with that size, so it can be compared only with figures made at
    the same one.

    >>> import numpy as np
    >>> dark = np.linspace(0, 0.3, 3600).reshape(60, 60)
    >>> loe(np.sqrt(dark), dark) < 0.05 * loe(0.3 - dark, dark)
    True
    """
    first, second = as_image(image, "image"), as_image(reference, "reference")
    if first.shape[:2] != second.shape[:2]:
        raise ValueError(f"image and reference differ in size: {first.shape[:2]} and {second.shape[:2]}")
    for array, name in ((first, "image"), (second, "reference")):
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ValueError(f"loe: {name} holds values that are not finite")
    a, b = _lightness(first), _lightness(second)
    differing, step = 0, max(1, _CHUNK // a.size)
    for start in range(0, a.size, step):
        rows = slice(start, start + step)
        differing += int(np.count_nonzero((a[rows, None] >= a) != (b[rows, None] >= b)))
    return differing / a.size


def _lightness(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The largest channel, shrunk, on 256 levels, as a vector."""
    from PIL import Image

    light = array if array.ndim == 2 else array[..., :3].max(axis=2)
    rows, columns = light.shape
    scale = min(1.0, SHORT_SIDE / min(rows, columns), (MAX_PIXELS / (rows * columns)) ** 0.5)
    picture = Image.fromarray(on_255(light).astype(np.float32))
    size = (max(1, round(columns * scale)), max(1, round(rows * scale)))
    small = np.asarray(picture.resize(size, Image.Resampling.BICUBIC))
    return np.asarray(np.clip(np.rint(small), 0, 255), dtype=np.uint8).ravel()
