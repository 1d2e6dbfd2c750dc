"""Write a photo file: whole or not at all, never over the original."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from tecu.lowlight.files.atomic import write_bytes
from tecu.lowlight.files.errors import UnwritableFile, shown
from tecu.lowlight.files.metadata import JPEG_EXIF, loaded, save_options, shortened
from tecu.lowlight.files.pack import encode_png, encode_tiff
from tecu.lowlight.files.photo import Encoding, Metadata, Photo, Pixels
from tecu.lowlight.files.png_colour import lost_elsewhere
from tecu.lowlight.files.read import FORMATS
from tecu.lowlight.grid import LARGE

WRITABLE = {suffix: kind for kind, suffixes in FORMATS.items() for suffix in suffixes}
"""Format by suffix (lower case)."""

LARGEST_SIDE = {"JPEG": 65_500, "WEBP": 16_383, "AVIF": 65_535}

JPEG_DPI = 65_535

# Mean of the luminance table of libjpeg at quality 90: coarser tables are not taken over, because the
# enhancement has made the noise and the blocks of a dark photo more visible.
COARSEST_TABLE = 11.6
_buffer = threading.Lock()


def write_photo(
    photo: Photo, path: str | os.PathLike[str], *, overwrite: bool = False, strip_metadata: bool = False
) -> tuple[str, ...]:
    """Write ``photo`` in the format of the suffix of ``path``; returns sentences on what could not be kept.

    An unknown suffix gets the format the photo came in. Fails with
    :class:`~tecu.lowlight.files.errors.UnwritableFile`, and then has left nothing behind.

    >>> import tempfile
    >>> from tecu.lowlight.files import read_photo
    >>> photo = Photo(np.full((4, 5, 3), 40_000, np.uint16))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_photo(photo, folder + "/a.tif")
    ...     bool((read_photo(folder + "/a.tif").pixels == photo.pixels).all())
    ()
    True
    """
    suffix = Path(path).suffix.lower()
    format = WRITABLE.get(suffix) or fitting_format(photo)
    data, notes = encode_photo(photo, format, strip_metadata=strip_metadata, name=shown(path))
    write_bytes(path, data, overwrite=overwrite)
    return notes


def fitting_format(photo: Photo) -> str:
    """The format the photo came in, or the nearest that is written."""
    return {"HEIF": "JPEG", "RAW": "TIFF"}.get(photo.encoding.format, photo.encoding.format)


def encode_photo(
    photo: Photo, format: str, *, strip_metadata: bool = False, name: str = "the result"
) -> tuple[bytes, tuple[str, ...]]:
    """The bytes of a file of ``format`` (``"JPEG"``, ...), and sentences on what could not be kept.

    >>> data, notes = encode_photo(Photo(np.zeros((4, 5), np.uint16)), "JPEG")
    >>> data[:2], notes
    (b'\\xff\\xd8', ('JPEG holds 8 bits a channel: the other 8 were rounded away',))
    """
    if format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    largest = LARGEST_SIDE.get(format, 2**31 - 1)
    if max(photo.size) > largest:
        raise UnwritableFile(
            f"{name} could not be written: {format} holds at most {largest:,} pixels a side, the photo is "
            f"{photo.size[0]} x {photo.size[1]}; choose PNG or TIFF"
        )
    metadata = Metadata() if strip_metadata else photo.metadata
    notes: list[str] = []
    if format != "PNG" and (lost := lost_elsewhere(metadata)):
        notes.append(f"{format} does not hold what {' and '.join(lost)} of PNG say of the colours: it was dropped")
    if format == "JPEG" and metadata.exif:
        exif, dropped = shortened(metadata.exif)
        metadata = replace(metadata, exif=exif)
        if dropped:
            notes.append(f"JPEG holds {JPEG_EXIF:,} bytes of EXIF data: {', '.join(dropped)} had to be dropped")
    if format == "JPEG" and metadata.dpi and max(metadata.dpi) > JPEG_DPI:  # Pillow would write the remainder
        metadata = replace(metadata, dpi=None)
        notes.append(f"JPEG holds at most {JPEG_DPI:,} dots an inch: the resolution was dropped")
    if _is_of_grey(metadata.icc) and _stores_colour(photo, format):
        metadata = replace(metadata, icc=None)
        notes.append(f"the ICC profile is of grey, and {format} holds the picture in RGB: it was dropped")
    if format == "TIFF":
        return encode_tiff(_joined(photo.pixels, photo.alpha), metadata), tuple(notes)
    if format == "PNG" and photo.bits == 16:
        return encode_png(_joined(photo.pixels, photo.alpha), metadata), tuple(notes)
    pixels, alpha = photo.pixels, photo.alpha
    if photo.bits == 16:
        pixels, alpha = eight_bits(pixels), None if alpha is None else eight_bits(alpha)
        notes.append(f"{format} holds 8 bits a channel: the other 8 were rounded away")
    if alpha is not None and format in ("JPEG", "BMP"):
        pixels, alpha = _on_white(pixels, alpha), None
        notes.append(f"{format} holds no transparency: the picture was put on white")
    if format == "BMP" and (metadata.exif or metadata.icc):
        notes.append("BMP holds no EXIF data and no ICC profile: they were dropped")
    samples = _joined(pixels, alpha)
    image = _image(samples, format)
    return _save(image, format, photo.encoding, metadata, name), tuple(notes)


def _is_of_grey(icc: bytes | None) -> bool:
    return icc is not None and icc[16:20] == b"GRAY"


def _stores_colour(photo: Photo, format: str) -> bool:
    """Whether the file will have three channels of colour, also for a grey photo."""
    if photo.pixels.ndim == 3 or format in ("WEBP", "AVIF"):
        return True
    return format == "TIFF" and photo.bits == 16 and photo.alpha is not None  # see encode_tiff


def _image(samples: Pixels, format: str) -> Image.Image:
    """Pillow's image of ``samples``. For a large JPEG in Pillow's own layout: a quarter of the time of its copy."""
    rows, columns, channels = samples.shape
    if format == "JPEG" and channels == 3 and rows * columns >= LARGE:
        from tecu.lowlight.kernels import padded

        return Image.frombuffer("RGBX", (columns, rows), padded(samples), "raw", "RGBX", 0, 1)
    return Image.fromarray(samples[..., 0] if channels == 1 else samples)


def _save(image: Image.Image, format: str, encoding: Encoding, metadata: Metadata, name: str) -> bytes:
    options = save_options(metadata) | _options(format, encoding, image.mode.removesuffix("X"))
    out = io.BytesIO()
    try:
        if format == "AVIF" and metadata.exif:
            options["exif"] = loaded(metadata.exif)  # Pillow would read the bytes and write them its own way
        with _large_buffer(image) if options.get("progressive") else contextlib.nullcontext():
            image.save(out, format, **options)
    except Exception as error:  # encoders differ in what they raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnwritableFile(f"{name} could not be encoded as {format}: {reason}") from error
    return out.getvalue()


@contextlib.contextmanager
def _large_buffer(image: Image.Image) -> Iterator[None]:
    """Pillow's buffer must hold a progressive JPEG as a whole; its guess, a byte a pixel, is too small for noise."""
    with _buffer:
        kept = ImageFile.MAXBLOCK
        ImageFile.MAXBLOCK = max(kept, 6 * image.size[0] * image.size[1] + (1 << 16))  # two bytes a sample
        try:
            yield
        finally:
            ImageFile.MAXBLOCK = kept


def _options(format: str, encoding: Encoding, mode: str) -> dict[str, Any]:
    """How to pack: as the original was packed where that makes sense, else at high quality."""
    same = encoding.format == format
    if format == "JPEG":
        options: dict[str, Any] = {"progressive": same and encoding.progressive}
        if mode == "RGB":
            kept = encoding.subsampling if same else None
            options["subsampling"] = 0 if kept is None else kept
        tables = encoding.quantization if same else None
        if tables and np.mean(tables[min(tables)]) <= COARSEST_TABLE and len(tables) <= (2 if mode == "RGB" else 1):
            return options | {"qtables": tables}
        return options | {"quality": 90 if same else 95}
    if format == "WEBP":
        lossless = encoding.lossless
        return {"lossless": lossless, "quality": 60 if lossless else 92, "method": 4, "exact": True}
    if format == "AVIF":
        return {"quality": 90, "subsampling": "4:4:4"}
    return {"compress_level": 5} if format == "PNG" else {}


def _joined(pixels: Pixels, alpha: Pixels | None) -> Pixels:
    """Colour and transparency as ``(rows, columns, channels)``."""
    colour = pixels[..., np.newaxis] if pixels.ndim == 2 else pixels
    return colour if alpha is None else np.concatenate([colour, alpha[..., np.newaxis]], axis=2)


def eight_bits(samples: Pixels) -> Pixels:
    """``round(x / 257)``, which maps 65535 to 255."""
    return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _on_white(pixels: Pixels, alpha: Pixels) -> Pixels:
    weight = alpha.astype(np.uint32) if pixels.ndim == 2 else alpha[..., np.newaxis].astype(np.uint32)
    return ((pixels * weight + 255 * (255 - weight) + 127) // 255).astype(np.uint8)
