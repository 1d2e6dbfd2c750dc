"""What a PNG file says of its colours beside an ICC profile: the chunks cICP, sRGB, gAMA and cHRM.

They say how samples are to be read, so what was true of the photo is true of the result.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from tecu.lowlight.files.photo import Metadata

Chunks = tuple[tuple[bytes, bytes], ...]

_LENGTHS = {b"cICP": 4, b"sRGB": 1, b"gAMA": 4, b"cHRM": 32}
# A file without any of them is taken as sRGB, which these only repeat.
_SRGB = {
    b"cICP": b"\x01\x0d\x00\x01",
    b"gAMA": struct.pack(">I", 45455),
    b"cHRM": struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000),
}


def colour_chunks(file: BinaryIO, start: int) -> Chunks:
    """The chunks on colour of the PNG file that begins at ``start``; they stand before its pixels."""
    found: dict[bytes, bytes] = {}
    position = start + 8  # after the signature
    while True:
        file.seek(position)
        head = file.read(8)
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if len(head) < 8 or kind == b"IDAT":
            return tuple(found.items())
        if length == _LENGTHS.get(kind):
            found[kind] = file.read(length)
        position += 12 + length  # length, kind, data, checksum


def fitting_chunks(metadata: Metadata) -> Chunks:
    """The chunks that a PNG file of this metadata may hold: sRGB stands there only without a profile."""
    return tuple(chunk for chunk in metadata.colour if not (chunk[0] == b"sRGB" and metadata.icc))


def lost_elsewhere(metadata: Metadata) -> list[str]:
    """The chunks without which the colours would be taken for others, in a format that has none of them.

    >>> lost_elsewhere(Metadata(colour=((b"gAMA", bytes(4)),)))
    ['gAMA']
    """
    said = dict(metadata.colour)
    if b"cICP" in said:  # comes before a profile, a profile before sRGB, and that before the others
        said = {b"cICP": said[b"cICP"]}
    elif metadata.icc or b"sRGB" in said:
        said = {}
    return [kind.decode() for kind, data in said.items() if data != _SRGB[kind]]
