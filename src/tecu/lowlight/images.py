"""Pictures of every kind as arrays ``h x w x c``, and back to the kind they came in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]
Picture = Callable[[Pixels], Pixels]

KINDS = "uint8, uint16, or floats in [0, 1]"
SAID = ("icc_profile", "dpi")  # of a PIL image
SHAPES = "height x width, height x width x channels (1 to 4), or a batch of the latter"


def through(image: Any, work: Picture) -> Any:
    """``work`` done on each picture of ``image`` (``h x w x 1`` or ``h x w x 3``), in the kind ``image`` came in.

    >>> import numpy as np
    >>> through(np.zeros((4, 5), dtype=np.uint8), lambda pixels: pixels + np.uint8(1)).shape
    (4, 5)
    """
    if _is_pil(image):
        return _through_pil(image, work)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(image, torch.Tensor):
        held = image.detach().cpu()
        if held.is_floating_point() and held.dtype not in (torch.float16, torch.float32, torch.float64):
            held = held.to(torch.float32)  # bfloat16 and shorter: NumPy has no such kinds
        result = _through_array(held.numpy(), work)
        return torch.from_numpy(np.ascontiguousarray(result)).to(image.device, image.dtype)
    return _through_array(_checked(image), work)


def pictures(image: Any) -> list[Pixels]:
    """The pictures in ``image``, ``h x w x 1`` or ``h x w x 3`` each, without transparency."""
    seen: list[Pixels] = []

    def look(pixels: Pixels) -> Pixels:
        seen.append(pixels)
        return pixels

    through(image, look)
    return seen


def _checked(image: Any) -> Pixels:
    if isinstance(image, str | bytes | os.PathLike):
        raise TypeError(
            f"image: expected an array, a tensor or a PIL image, got {type(image).__name__}; a file is read by "
            f"PIL.Image.open, or by the command 'tecu enhance'"
        )
    array = np.asarray(image)
    if array.dtype == object or array.dtype.kind not in "uf":
        raise TypeError(f"image: its values must be {KINDS}, got {array.dtype} ({type(image).__name__})")
    return array


def _through_array(array: Pixels, work: Picture) -> Pixels:
    array = _checked(array)
    if not array.dtype.isnative:
        return _through_array(array.astype(array.dtype.newbyteorder("=")), work).astype(array.dtype)
    if array.dtype not in (np.uint8, np.uint16, np.float16, np.float32, np.float64):
        raise TypeError(f"image: its values must be {KINDS}, got {array.dtype}")
    fits = array.ndim == 2 or (array.ndim in (3, 4) and 1 <= array.shape[-1] <= 4)
    if not fits or array.size == 0:
        first = array.ndim in (3, 4) and array.size > 0 and 1 <= array.shape[-3] <= 4
        hint = "; channels come last: np.moveaxis(image, -3, -1), or image.movedim(-3, -1) of a tensor" if first else ""
        raise ValueError(f"image: expected {SHAPES}, got shape {array.shape}{hint}")
    if array.dtype.kind == "f":
        low, high = float(array.min()), float(array.max())
        if not (low >= 0.0 and high <= 1.0):  # also true for NaN
            raise ValueError(f"image: floats must be in [0, 1] without NaN, got {low!r} to {high!r}")
    if array.dtype == np.float16:
        return _through_array(array.astype(np.float32), work).astype(np.float16)
    if array.ndim == 2:
        return work(array[..., None])[..., 0]
    if array.ndim == 4:
        return np.stack([_through_array(picture, work) for picture in array])
    colours = {1: 1, 2: 1, 3: 3, 4: 3}[array.shape[2]]
    if colours == array.shape[2]:
        return work(array)
    pixels, alpha = np.ascontiguousarray(array[..., :colours]), array[..., colours:]
    return np.concatenate([on_visible(alpha[..., 0], pixels, work), alpha], axis=-1)


def on_visible(alpha: Pixels | None, pixels: Pixels, work: Picture) -> Pixels:
    """``work`` done on pixels of which those that ``alpha`` hides have no say, and stay as they are.

    >>> import numpy as np
    >>> alpha, pixels = np.array([[0, 255]], np.uint8), np.array([[[9], [1]]], np.uint8)
    >>> on_visible(alpha, pixels, lambda seen: seen + seen.max()).tolist()
    [[[9], [2]]]
    """
    if alpha is None or alpha.all():
        return work(pixels)
    result = np.array(work(visible_pixels(alpha, pixels)))
    result[alpha == 0] = pixels[alpha == 0]
    return result


def visible_pixels(alpha: Pixels | None, pixels: Pixels) -> Pixels:
    """The pixels, those that ``alpha`` hides with the colour of the nearest that it does not."""
    if alpha is None or alpha.all() or not alpha.any():
        return pixels
    from scipy.ndimage import distance_transform_edt

    rows, columns = distance_transform_edt(alpha == 0, return_distances=False, return_indices=True)
    return np.asarray(pixels[rows, columns])


def _is_pil(image: Any) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def _through_pil(image: Any, work: Picture) -> Any:
    """A PIL image keeps its mode where that has levels of grey or colour; other modes become the nearest such.

    What it says of itself (colour profile, EXIF, resolution) goes along, but no profile of colours that it left. A
    colour that is to be invisible becomes transparency: other pixels may come to have it. For grey of 16 bits Pillow
    has no mode with transparency, and the invisible level stays one.
    """
    from PIL import Image

    from tecu.lowlight.files.metadata import exif_of, resolution

    mode, said = image.mode, {key: image.info[key] for key in SAID if key in image.info}
    if resolution(image) is None:  # of a TIFF that tells of none Pillow says (1, 1)
        said.pop("dpi", None)
    if mode == "I":
        raise TypeError("image: a PIL image of mode 'I' has no white; convert it to 'I;16', 'L', 'RGB' or 'F'")
    if mode == "F":
        result = Image.fromarray(_through_array(np.asarray(image), work))
    else:
        from tecu.lowlight.files.samples import colour_key, keyed_alpha, samples_of

        key = colour_key(image)
        samples, profile, _ = samples_of(image, said.pop("icc_profile", None))
        said |= {} if profile is None else {"icc_profile": profile}
        is_deep = samples.dtype == np.uint16
        if key is not None and max(key) > 255 and not is_deep:
            key = tuple(value >> 8 for value in key)  # of 16-bit colour Pillow keeps the high bytes, and the whole key
        if key is None or (alpha := keyed_alpha(samples, key)) is None:
            pixels = _through_array(samples, work)
        else:
            pixels = _through_array(np.dstack([samples, alpha]), work)
            if is_deep:
                pixels, said["transparency"] = _keyed(pixels, key[0]), key[0]
        result = Image.fromarray(pixels)
    if (exif := exif_of(image)) is not None:
        said["exif"] = exif
    result.info.update(said)
    return result


def _keyed(pixels: Pixels, level: int) -> Pixels:
    """Grey with transparency as grey with an invisible ``level``; what is seen and has come to have it, is one beside.

    >>> _keyed(np.array([[[7, 0], [7, 65535], [9, 65535]]], np.uint16), 7).tolist()
    [[7, 8, 9]]
    """
    grey, alpha = pixels[..., 0], pixels[..., 1]
    beside = level + 1 if level < np.iinfo(pixels.dtype).max else level - 1
    return np.where(alpha == 0, level, np.where(grey == level, beside, grey)).astype(pixels.dtype)
