"""Files that need an optional package: HEIF by pi-heif, camera RAW by rawpy. Both are read, not written."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from PIL import Image

from tecu.extras import how_to_get
from tecu.lowlight.files.errors import MissingPart, TooManyPixels, UnreadableFile
from tecu.lowlight.files.photo import Encoding, Photo

HEIF_SUFFIXES = frozenset({".heic", ".heif", ".hif"})
RAW_SUFFIXES = frozenset(
    {
        ".dng",
        ".cr2",
        ".cr3",
        ".crw",
        ".nef",
        ".nrw",
        ".arw",
        ".srf",
        ".sr2",
        ".orf",
        ".rw2",
        ".raf",
        ".pef",
        ".srw",
    }
)
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}


def check_size(size: tuple[int, int], name: str, max_pixels: int) -> None:
    """Refuse a picture of more than ``max_pixels``."""
    columns, rows = size
    if columns * rows > max_pixels:
        raise TooManyPixels(f"{name} has {columns} x {rows} = {columns * rows:,} pixels, the limit is {max_pixels:,}")


def is_heif(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is HEIF (and not AVIF, which Pillow reads)."""
    if head[4:8] != b"ftyp":
        return False
    length = int.from_bytes(head[:4], "big")
    brands = {head[i : i + 4] for i in range(16, min(length, len(head), 256), 4)} | {head[8:12]}
    return bool(brands & _HEIF_BRANDS) and not brands & {b"avif", b"avis"}


def open_heif(file: BinaryIO, name: str, max_pixels: int) -> Image.Image:
    """The main picture of a HEIF file, upright, 8 bits a channel."""
    try:
        import pi_heif
    except ImportError as error:
        raise MissingPart(f"{name} is a HEIF file; to read it, {how_to_get('heif')}") from error
    container: Any = pi_heif.open_heif(file, convert_hdr_to_8bit=True)
    check_size(container.size, name, max_pixels)
    image: Image.Image = container.to_pillow()
    return image


def read_raw(file: BinaryIO, name: str, max_pixels: int) -> Photo:
    """A camera's RAW file developed to 16 bits: its white balance, its exposure as it was."""
    try:
        import rawpy
    except ImportError as error:
        raise MissingPart(f"{name} is a RAW file; to read it, {how_to_get('raw')}") from error
    try:
        with rawpy.imread(file) as raw:
            check_size((raw.sizes.width, raw.sizes.height), name, max_pixels)
            # Automatic brightening would clip highlights that the enhancement could have kept.
            pixels = raw.postprocess(output_bps=16, use_camera_wb=True, no_auto_bright=True)
    except rawpy.LibRawError as error:  # its words come as bytes
        words = [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in error.args]
        raise UnreadableFile(f"{name} could not be decoded: {' '.join(words)}") from error
    note = "the RAW file was developed with its camera's white balance; its EXIF data is not taken over"
    return Photo(np.ascontiguousarray(pixels), encoding=Encoding("RAW"), notes=(note,))
