"""What all methods share: the brightest channel, gains, levels, and a coarser grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Picture = np.ndarray[Any, Any]
Method = Callable[[Picture], Picture]

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601
LEVELS = 256  # of the methods that count grey levels
DARKEST = 1e-4  # a fortieth of an 8-bit step: below it a ratio of two channels means nothing


def checked(image: Any, method: str) -> Picture:
    """``image`` as float32 in [0, 1], grey or RGB, or a sentence that says what is wrong."""
    array = np.asarray(image)
    if array.dtype.kind != "f":
        raise TypeError(
            f"{method}: image must be floats in [0, 1], got {array.dtype}; Enhancer({method!r}) takes integers"
        )
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3)) or array.size == 0:
        raise ValueError(f"{method}: image must be height x width or height x width x 3, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{method}: image has NaN or Inf")
    return np.asarray(np.clip(array, 0.0, 1.0), dtype=np.float32)


def finished(result: Picture, image: Any) -> Picture:
    """``result`` clipped to [0, 1], in the precision of ``image``."""
    return np.asarray(np.clip(result, 0.0, 1.0), dtype=np.asarray(image).dtype)


def brightest(picture: Picture) -> Picture:
    """``max(R, G, B)``: the value of HSV; a grey picture is its own."""
    return picture if picture.ndim == 2 else np.ascontiguousarray(picture.max(axis=2))


def luma(picture: Picture) -> Picture:
    """``0.299 R + 0.587 G + 0.114 B``; a grey picture is its own."""
    if picture.ndim == 2:
        return picture
    return np.ascontiguousarray(picture[..., 0] if picture.shape[2] == 1 else picture @ np.array(LUMA, picture.dtype))


def with_gain(picture: Picture, gain: Picture) -> Picture:
    """All channels times the same gain, so that hue and saturation stay."""
    return picture * (gain if picture.ndim == 2 else gain[..., None])


def with_value(picture: Picture, old: Picture, new: Picture) -> Picture:
    """The picture with its value (or luma) ``old`` replaced by ``new``."""
    return with_gain(picture, new / np.maximum(old, DARKEST))


def levels(plane: Picture) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The nearest of 256 grey levels."""
    return np.asarray(np.rint(plane * (LEVELS - 1)), dtype=np.intp)


def through_curve(plane: Picture, curve: Picture) -> Picture:
    """``curve`` (256 values in [0, 1]) at the values of ``plane``; linear between, so 16-bit input keeps its steps."""
    position = plane * (LEVELS - 1)
    return np.asarray(np.interp(position, np.arange(LEVELS), curve), dtype=plane.dtype)


def shrunk(plane: Picture, most_pixels: int) -> Picture:
    """``plane`` averaged over ``k x k`` cells, ``k`` the smallest number that leaves at most ``most_pixels``."""
    height, width = plane.shape
    k = 1
    while -(-height // k) * -(-width // k) > most_pixels:
        k += 1
    if k == 1:
        return plane
    padded = np.pad(plane, ((0, -height % k), (0, -width % k)), mode="edge")
    rows = padded.reshape(padded.shape[0] // k, k, padded.shape[1]).mean(axis=1)
    return np.ascontiguousarray(rows.reshape(rows.shape[0], -1, k).mean(axis=2))


def enlarged(plane: Picture, shape: tuple[int, int]) -> Picture:
    """``plane`` on a larger grid, linear between the centres of its cells."""
    if plane.shape == shape:
        return plane
    k = -(-shape[0] // plane.shape[0])
    k = max(k, -(-shape[1] // plane.shape[1]))
    return _stretch(_stretch(plane, shape[0], k, axis=0), shape[1], k, axis=1)


def _stretch(plane: Picture, length: int, k: int, axis: int) -> Picture:
    count = plane.shape[axis]
    position = np.clip((np.arange(length) + 0.5) / k - 0.5, 0.0, count - 1.0)
    left = np.minimum(position.astype(np.intp), max(count - 2, 0))
    part = (position - left).astype(plane.dtype)
    right = np.minimum(left + 1, count - 1)
    part = part[:, None] if axis == 0 else part[None, :]
    low, high = np.take(plane, left, axis=axis), np.take(plane, right, axis=axis)
    return np.asarray(low + part * (high - low))
