"""Decoding into the memory of an array, instead of copying out of Pillow's."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFile

from tecu.lowlight.files.photo import Pixels

FORMATS = frozenset({"JPEG", "MPO", "PNG", "WEBP"})  # whose decoders can write RGB four bytes apart


def decoded(image: ImageFile.ImageFile) -> Pixels | None:
    """Load an RGB picture; its pixels, four bytes apart as Pillow has them, or ``None`` if it has other memory.

    An array's memory comes from the system in large pages. Pillow's own, in small ones, can take as long to fetch as
    12 megapixels take to decode.

    >>> import io
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (3, 2), (1, 2, 3)).save(file, "PNG")
    >>> decoded(Image.open(file))[0, 0].tolist()
    [1, 2, 3, 255]
    """
    if image._im is not None:  # loaded already
        return None
    columns, rows = image.size
    memory = np.zeros((rows, columns, 4), np.uint8)  # a file that ends early must not show what was there before
    room = Image.frombuffer("RGBX", image.size, memory, "raw", "RGBX", 0, 1).im
    image.im = room
    image.load()
    return memory if image.im is room else None
