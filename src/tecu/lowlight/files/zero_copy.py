"""Decoding into the memory of an array, instead of copying out of Pillow's."""

from __future__ import annotations

from PIL import Image, ImageFile

from tecu.lowlight.files.photo import Pixels
from tecu.lowlight.spare import room

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
    memory = room((rows, columns, 4))
    if ImageFile.LOAD_TRUNCATED_IMAGES:  # a file that ends early must not show what was there before
        memory[:] = 0
    mapped = Image.frombuffer("RGBX", image.size, memory, "raw", "RGBX", 0, 1).im
    image.im = mapped
    image.load()
    return memory if image.im is mapped else None
