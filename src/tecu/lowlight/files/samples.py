"""The pixels of a picture that Pillow has loaded, with 8 or 16 bits a channel, in grey or RGB."""

from __future__ import annotations

import contextlib
import io
from typing import BinaryIO

import numpy as np
from PIL import Image, TiffImagePlugin

from tecu.lowlight.files.photo import Pixels
from tecu.lowlight.files.sixteen import raw_mode
from tecu.lowlight.grid import LARGE

SAMPLE_FORMAT = 339
STRIP = 64  # rows
SAME_COLOURS = {"La": "LA", "RGBa": "RGBA", "RGBX": "RGB"}


def samples_of(image: Image.Image, icc: bytes | None) -> tuple[Pixels, bytes | None, list[str]]:
    """The pixels with their transparency, the profile that still fits them, and what was changed."""
    mode = image.mode
    if mode.startswith("I;16"):
        samples, tags = np.asarray(image).astype(np.uint16), getattr(image, "tag_v2", {})
        if tags.get(258) == (12,):  # Pillow leaves 12 bits as they are, too
            return samples << 4 | samples >> 8, icc, ["the 12-bit picture became 16-bit grey"]
        inverted = tags.get(262) == 0  # white is zero, which Pillow leaves as it is
        return (65535 - samples if inverted else samples), icc, []
    if mode in ("L", "LA", "RGB", "RGBA"):
        return _array(image), icc, []
    if mode == "1":
        clear = "transparency" in image.info
        return np.asarray(image.convert("LA" if clear else "L")), icc, ["the 1-bit picture became 8-bit grey"]
    if mode in ("P", "PA"):
        clear = mode == "PA" or "transparency" in image.info
        return np.asarray(image.convert("RGBA" if clear else "RGB")), _of_rgb(icc), ["the palette became full colour"]
    if mode == "CMYK":
        return np.asarray(_cmyk_to_rgb(image, icc)), None, ["CMYK was converted to RGB"]
    if mode in SAME_COLOURS:
        return np.asarray(image.convert(SAME_COLOURS[mode])), icc, []
    return np.asarray(image.convert("RGB")), _of_rgb(icc), []


def _of_rgb(icc: bytes | None) -> bytes | None:
    """The profile if it says that it is of RGB colours, as that of a palette or of YCbCr does."""
    return icc if icc is not None and icc[16:20] == b"RGB " else None


def colour_key(image: Image.Image) -> tuple[int, ...] | None:
    """The one colour that is to be invisible, on the scale of the pixels; to be asked before they are loaded.

    Pillow brings grey of 2 and 4 bits to 8 bits, by 85 and by 17, but not the key.
    """
    key = image.info.get("transparency")
    if isinstance(key, int) and image.mode in ("L", "I;16"):
        return (key * {"L;2": 85, "L;4": 17}.get(raw_mode(image), 1),)
    if isinstance(key, tuple) and len(key) == 3 and image.mode == "RGB" and all(isinstance(v, int) for v in key):
        return key
    return None


def keyed_alpha(pixels: Pixels, key: tuple[int, ...]) -> Pixels | None:
    """Transparency that hides the pixels of the colour ``key``.

    >>> keyed_alpha(np.array([[3, 4]], np.uint8), (3,))
    array([[  0, 255]], dtype=uint8)
    """
    if len(key) != (1 if pixels.ndim == 2 else 3):
        return None
    hidden = pixels == key[0] if pixels.ndim == 2 else np.all(pixels == np.array(key), axis=2)
    return np.where(hidden, 0, np.iinfo(pixels.dtype).max).astype(pixels.dtype)


def tiff_has_floats(file: BinaryIO) -> bool:
    """Whether the file from here on is a TIFF of floating-point pixels, also one that Pillow does not open."""
    head = file.read(16)
    start = file.tell() - len(head)
    try:
        tags = TiffImagePlugin.ImageFileDirectory_v2(head if head[2:3] == b"\x2b" else head[:8])
        file.seek(start + tags.next)
        tags.load(file)
        return 3 in np.atleast_1d(tags.get(SAMPLE_FORMAT, 1))
    except Exception:  # no TIFF, or a damaged one
        return False


def is_large_colour(image: Image.Image) -> bool:
    """Whether it is so large that the layout of its pixels counts."""
    return image.mode == "RGB" and image.size[0] * image.size[1] >= LARGE


def _array(image: Image.Image) -> Pixels:
    """``np.asarray(image)``, strip by strip, in a third of the time.

    The pixels of a large RGB photo stay four bytes apart, as Pillow has them, and go to its encoder without a copy.
    """
    columns, rows = image.size
    channels = len(image.getbands())
    apart, mode = (channels, image.mode)
    if is_large_colour(image):
        apart, mode = 4, "RGBX"
    array = np.empty((rows, columns, apart) if channels > 1 else (rows, columns), np.uint8)
    for top in range(0, rows, STRIP):
        bottom = min(rows, top + STRIP)
        strip = image.crop((0, top, columns, bottom)).tobytes("raw", mode)
        array[top:bottom] = np.frombuffer(strip, np.uint8).reshape(array[top:bottom].shape)
    return array if apart == channels else array[..., :channels]


def _cmyk_to_rgb(image: Image.Image, icc: bytes | None) -> Image.Image:
    """By the file's own profile to sRGB, or by Pillow's plain rule when it has none that works."""
    if icc:
        from PIL import ImageCms

        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            converted = ImageCms.profileToProfile(
                image, io.BytesIO(icc), ImageCms.createProfile("sRGB"), outputMode="RGB"
            )
            if converted is not None:
                return converted
    return image.convert("RGB")
