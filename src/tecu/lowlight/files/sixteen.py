"""Colour with 16 bits a channel, which Pillow reads as 8 and does not write.

Reading: Pillow's decoders do the unpacking, twice. Once they are told the true byte order and keep the high
bytes, once the other order and keep the low ones. Writing is in ``pack.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageFile

from tecu.lowlight.files.photo import Pixels

_BIG, _LITTLE = "16B", "16L"


def raw_mode(image: Image.Image) -> str:
    """How the file's samples are laid out, in Pillow's words: ``"RGB;16B"``, say; ``""`` if unknown or loaded."""
    tile = getattr(image, "tile", None)
    args = tile[0].args if tile else ""
    args = args[0] if isinstance(args, tuple) and args else args
    return args if isinstance(args, str) else ""


def is_sixteen_bit_colour(image: ImageFile.ImageFile) -> bool:
    """Whether the opened, not yet loaded ``image`` has 16 bits a channel that Pillow would cut to 8.

    Of separate planes it decodes the high bytes whatever it is told: these are not read.
    """
    if getattr(image, "tag_v2", {}).get(284) == 2:
        return False
    return raw_mode(image) in {f"{mode};16{order}" for mode in ("RGB", "RGBA") for order in "BLN"} | {"LA;16B"}


def read_sixteen(image: ImageFile.ImageFile, reopen: Callable[[], ImageFile.ImageFile]) -> Pixels:
    """All 16 bits, ``(rows, columns, 2, 3 or 4)``; ``reopen`` opens the same file once more."""
    mode = raw_mode(image)
    if mode == "LA;16B":
        _set_raw_mode(image, "RGBA")  # the four bytes of a pixel as they are
        return np.asarray(image).view(">u2").astype(np.uint16)
    kind, order = mode.split(";")
    order = order.replace("16N", _LITTLE if sys.byteorder == "little" else _BIG)
    pixels = np.asarray(image).astype(np.uint16)
    pixels <<= 8
    with reopen() as low:
        _set_raw_mode(low, f"{kind};{_LITTLE if order == _BIG else _BIG}")
        pixels |= np.asarray(low)
    return pixels


def _set_raw_mode(image: ImageFile.ImageFile, mode: str) -> None:
    image.tile = [
        tile._replace(args=(mode, *tile.args[1:]) if isinstance(tile.args, tuple) else mode) for tile in image.tile
    ]
