"""What the metrics share: the range of an image's values, and checks that two images can be compared."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def as_image(image: Any, name: str) -> NDArray[Any]:
    """``image`` as a NumPy array of 2 or 3 dimensions with values of a kind whose range is known."""
    array = np.asarray(image)
    if array.ndim not in (2, 3) or array.size == 0:
        raise ValueError(f"{name}: expected (rows, columns) or (rows, columns, channels), got shape {array.shape}")
    if array.dtype == np.bool_:
        array = array.astype(np.float64)
    if array.dtype not in (np.uint8, np.uint16) and array.dtype.kind != "f":
        raise TypeError(f"{name}: expected uint8, uint16 or floats in [0, 1], got {array.dtype}")
    return array


def as_pair(image: Any, reference: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Both images, which must agree in shape and kind of values."""
    first, second = as_image(image, "image"), as_image(reference, "reference")
    if first.shape != second.shape:
        raise ValueError(f"image and reference differ in shape: {first.shape} and {second.shape}")
    if value_range(first) != value_range(second):
        raise TypeError(f"image and reference differ in their values' kind: {first.dtype} and {second.dtype}")
    return first, second


def value_range(array: NDArray[Any]) -> float:
    """The largest value the kind of numbers stands for: 255, 65535 or 1."""
    return 1.0 if array.dtype.kind == "f" else float(np.iinfo(array.dtype).max)


def on_255(array: NDArray[Any]) -> Floats:
    """``array`` in float64 on the scale 0 to 255."""
    return np.asarray(array, dtype=np.float64) * (255.0 / value_range(array))
