"""Photo files: reading, writing, and what is kept beside the pixels."""

from tecu.lowlight.files.errors import (
    MissingPart,
    PhotoError,
    TargetExists,
    TooManyPixels,
    UnreadableFile,
    UnwritableFile,
)
from tecu.lowlight.files.photo import Metadata, Photo
from tecu.lowlight.files.read import MAX_PIXELS, READABLE, read_photo
from tecu.lowlight.files.write import WRITABLE, encode_photo, write_photo

__all__ = [
    "MAX_PIXELS",
    "READABLE",
    "WRITABLE",
    "Metadata",
    "MissingPart",
    "Photo",
    "PhotoError",
    "TargetExists",
    "TooManyPixels",
    "UnreadableFile",
    "UnwritableFile",
    "encode_photo",
    "read_photo",
    "write_photo",
]
