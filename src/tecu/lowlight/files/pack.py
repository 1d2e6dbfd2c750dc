"""PNG with 16 bits a channel, and TIFF, by hand: Pillow writes no 16-bit colour, and a packed TIFF without its EXIF."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import TiffImagePlugin

from tecu.lowlight.files.errors import UnwritableFile
from tecu.lowlight.files.metadata import loaded
from tecu.lowlight.files.photo import Metadata, Pixels
from tecu.lowlight.files.png_colour import fitting_chunks

_ROWS = 64  # filtered and packed at a time
_LEVEL = 5  # zlib: a third of the default's time for 2 % more bytes

_COLOUR_TYPE = {1: 0, 2: 4, 3: 2, 4: 6}


def encode_png(samples: Pixels, metadata: Metadata) -> bytes:
    """A PNG file of ``samples (rows, columns, 1 to 4)``, ``uint16``, all rows through the Paeth filter."""
    rows, columns, channels = samples.shape
    chunks = [_chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 16, _COLOUR_TYPE[channels], 0, 0, 0))]
    chunks += [_chunk(kind, data) for kind, data in fitting_chunks(metadata)]
    if metadata.icc:
        chunks.append(_chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(metadata.icc)))
    if metadata.dpi:
        across, down = (round(dots / 0.0254) for dots in metadata.dpi)
        chunks.append(_chunk(b"pHYs", struct.pack(">IIB", across, down, 1)))
    if metadata.exif:
        chunks.append(_chunk(b"eXIf", metadata.exif.removeprefix(b"Exif\0\0")))
    packer = zlib.compressobj(_LEVEL)
    for strip in _paeth(samples.astype(">u2").view(np.uint8).reshape(rows, -1), 2 * channels):
        if packed := packer.compress(strip):
            chunks.append(_chunk(b"IDAT", packed))
    chunks += [_chunk(b"IDAT", packer.flush()), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def _paeth(lines: Pixels, step: int) -> Iterator[bytes]:
    """Each byte minus its neighbour (left, above, corner) that is nearest to left + above - corner."""
    above = np.zeros((1, lines.shape[1]), np.uint8)
    for start in range(0, len(lines), _ROWS):
        strip = lines[start : start + _ROWS]
        up = np.concatenate([above, strip[:-1]]).astype(np.int16)
        left, corner = np.zeros_like(up), np.zeros_like(up)
        left[:, step:], corner[:, step:] = strip[:, :-step], up[:, :-step]
        to_left, to_up = np.abs(up - corner), np.abs(left - corner)
        to_corner = np.abs(left + up - 2 * corner)
        nearest = np.where((to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner))
        filtered = np.full((len(strip), 1 + lines.shape[1]), 4, np.uint8)  # each line begins with its filter's number
        filtered[:, 1:] = strip - nearest.astype(np.uint8)
        above = strip[-1:]
        yield filtered.tobytes()


def encode_tiff(samples: Pixels, metadata: Metadata) -> bytes:
    """A TIFF file of ``samples (rows, columns, 1 to 4)``, 8 or 16 bits: strips of zlib-packed differences."""
    if (
        samples.shape[2] == 2 and samples.dtype == np.uint16
    ):  # grey with transparency, a layout that Pillow does not read
        samples = samples[..., [0, 0, 0, 1]]
    rows, columns, channels = samples.shape
    strips, offsets, end = [], [], 0
    for start in range(0, rows, _ROWS):
        strip = samples[start : start + _ROWS].astype(samples.dtype.newbyteorder("<"))
        strip[:, 1:] -= strip[:, :-1].copy()
        strips.append(zlib.compress(strip.tobytes(), _LEVEL))
        offsets.append(end)  # from the end of the directory, which Pillow adds
        end += len(strips[-1])
    if end >= 2**32 - 2**20:
        raise UnwritableFile("a TIFF file holds at most 4 GB; choose PNG")
    tags = TiffImagePlugin.ImageFileDirectory_v2(prefix=b"II")
    if metadata.exif:
        for tag, value in loaded(metadata.exif).items():
            tags[tag] = value
    tags[256], tags[257], tags[258] = columns, rows, (8 * samples.dtype.itemsize,) * channels
    tags[259], tags[262], tags[317] = 8, 2 if channels >= 3 else 1, 2
    tags[277], tags[278], tags[273], tags[279] = channels, _ROWS, tuple(offsets), tuple(map(len, strips))
    if channels in (2, 4):
        tags[338] = 2  # the last channel is transparency, not multiplied into the colours
    if metadata.dpi:
        tags[282], tags[283], tags[296] = metadata.dpi[0], metadata.dpi[1], 2
    if metadata.icc:
        tags.tagtype[34675] = 7
        tags[34675] = metadata.icc
    out = io.BytesIO()
    tags.save(out)
    return b"".join([out.getvalue(), *strips])
