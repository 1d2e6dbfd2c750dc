"""EXIF, ICC profile and resolution: what is taken over from a file, and what would be wrong in the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import ExifTags, Image
from PIL.PngImagePlugin import PngInfo

from tecu.lowlight.files.photo import Metadata, Pixels
from tecu.lowlight.files.png_colour import fitting_chunks

ORIENTATION, EXIF_IFD, GPS_IFD, WIDTH, HEIGHT = 0x0112, 0x8769, 0x8825, 0xA002, 0xA003
INTEROPERABILITY = 0xA005  # where in the old file its table was, which tells nothing of the photo
MAKER_NOTE = 0x927C  # what the camera's maker says to his own programs: often long, and of no use to others
HEAD = b"Exif\0\0"
JPEG_EXIF = 65_535 - 2  # a segment without its length, which counts itself; our "Exif\0\0" is part of the data

# Tags that say how a TIFF's pixels are stored (or hold XMP, IPTC and profiles): about the old file, not the
# photo.
_RANGES = [(254, 259), (262, 262), (266, 266), (273, 281), (284, 284), (288, 292), (297, 297), (317, 317), (320, 325)]
_RANGES += [(330, 341), (347, 347), (512, 521), (529, 532), (700, 700), (33723, 33723), (34377, 34377), (34675, 34675)]
STRUCTURE = frozenset(tag for first, last in _RANGES for tag in range(first, last + 1))


def read_metadata(image: Image.Image) -> tuple[Metadata, int, list[str]]:
    """What the loaded ``image`` carries, its EXIF orientation (1 to 8), and sentences on what was dropped."""
    notes: list[str] = []
    exif, orientation = b"", 1
    try:
        tags = image.getexif()
        found = tags.get(ORIENTATION, 1)
        orientation = found if isinstance(found, int) and 1 <= found <= 8 else 1
        exif = _clean(tags, image.size if orientation < 5 else image.size[::-1])
    except Exception:  # Pillow raises many kinds of error on damaged EXIF; the photo itself may be fine
        notes.append("the EXIF data is damaged and was dropped")
    icc = image.info.get("icc_profile")
    icc = icc if isinstance(icc, bytes) and len(icc) > 128 else None  # a profile's header alone has 128 bytes
    return Metadata(exif or None, icc, resolution(image)), orientation, notes


class _Bytewise(str):
    """Text whose letters are the bytes of the file, as Pillow reads it: written, it gives those bytes again.

    Pillow itself writes ASCII and turns other letters into question marks. (Plain bytes would change a tag's type.)
    """

    def encode(self, encoding: str = "latin-1", errors: str = "strict") -> bytes:
        try:
            return super().encode("latin-1")
        except UnicodeEncodeError:  # text that was read from no file
            return super().encode("utf-8")


def _bytewise(value: Any) -> Any:
    """The value of a tag, or of a table of tags, with its texts to be written byte by byte."""
    if isinstance(value, dict):
        return {tag: _bytewise(inner) for tag, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_bytewise, value))
    return _Bytewise(value) if isinstance(value, str) else value


def loaded(exif: bytes) -> Image.Exif:
    """The tags in ``exif``, those of camera and place as tables, with texts that survive to be written again."""
    tags = Image.Exif()
    tags.load(exif)
    for tag in list(tags):
        tags[tag] = _bytewise(dict(tags.get_ifd(tag)) if tag in (EXIF_IFD, GPS_IFD) else tags[tag])
    return tags


def exif_of(image: Image.Image) -> bytes | None:
    """What the loaded ``image``, which is to stay turned as it is, holds as EXIF: of a TIFF, its tags on the photo."""
    if isinstance(held := image.info.get("exif"), bytes):
        # Pillow gives that of a WebP without the head, and writes a JPEG as it is told; others do without.
        return held if held.startswith(HEAD) or not held else HEAD + held
    try:
        tags = image.getexif()
        return _clean(tags, image.size, tags.get(ORIENTATION, 1)) or None
    except Exception:  # as above
        return None


def _clean(tags: Image.Exif, size: tuple[int, int], orientation: int = 1) -> bytes:
    """The tags as bytes: of this size, without thumbnail (Pillow writes none) and a TIFF's storage tags."""
    kept = Image.Exif()
    for tag, value in tags.items():
        if tag not in STRUCTURE and tag not in (ORIENTATION, EXIF_IFD, GPS_IFD):
            kept[tag] = _bytewise(value)
    for ifd in (EXIF_IFD, GPS_IFD):
        values = {tag: value for tag, value in tags.get_ifd(ifd).items() if tag != INTEROPERABILITY}
        if ifd == EXIF_IFD:
            values |= {tag: side for tag, side in zip((WIDTH, HEIGHT), size, strict=True) if tag in values}
        if values:
            kept[ifd] = _bytewise(values)
    if not kept and orientation == 1:
        return b""
    if ORIENTATION in tags:
        kept[ORIENTATION] = orientation
    return kept.tobytes()


def shortened(exif: bytes, most: int = JPEG_EXIF) -> tuple[bytes, list[str]]:
    """EXIF of at most ``most`` bytes, and the names of what was left out: the maker's note, then the longest tags."""
    excess = len(exif) - most
    if excess <= 0:
        return exif, []
    tags = loaded(exif)
    places = [tags, *(tags[ifd] for ifd in (EXIF_IFD, GPS_IFD) if ifd in tags)]
    lengths = [(tag == MAKER_NOTE, _length(place[tag]), n, tag) for n, place in enumerate(places) for tag in place]
    dropped = []
    for _, length, n, tag in sorted(lengths, reverse=True):
        if excess <= 0:
            break
        del places[n][tag]
        excess -= 12 + length  # its entry in the directory, and what that points to
        dropped.append(ExifTags.TAGS.get(tag, f"tag {tag}"))
    return tags.tobytes(), dropped


def _length(value: Any) -> int:
    """How many bytes a tag's value takes at least, beside its entry."""
    return len(value) if isinstance(value, bytes | str | tuple) and len(value) > 4 else 0


def resolution(image: Image.Image) -> tuple[float, float] | None:
    """Dots an inch across and down, if its file tells."""
    try:
        across, down = (float(value) for value in image.info["dpi"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    given = 1.0 < across <= 1e5 and 1.0 < down <= 1e5  # 1 is what Pillow says of a TIFF that says nothing
    return (across, down) if given else None


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """``pixels`` turned and mirrored as EXIF ``orientation`` (1 to 8) asks."""
    if orientation not in range(2, 9):
        return pixels
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def save_options(metadata: Metadata) -> dict[str, Any]:
    """The metadata as options of Pillow's ``save``."""
    options: dict[str, Any] = {}
    if metadata.exif:
        options["exif"] = metadata.exif
    if metadata.icc:
        options["icc_profile"] = metadata.icc
    if metadata.dpi:
        options["dpi"] = metadata.dpi
    if metadata.colour:
        options["pnginfo"] = PngInfo()  # other formats do not look at it
        for kind, data in fitting_chunks(metadata):
            options["pnginfo"].add(kind, data)
    return options
