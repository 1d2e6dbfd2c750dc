"""Read a photo file of any kind we take, within bounds."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageFile, UnidentifiedImageError

from tecu.lowlight.files import foreign, zero_copy
from tecu.lowlight.files.errors import PhotoError, UnreadableFile, shown
from tecu.lowlight.files.metadata import read_metadata, upright
from tecu.lowlight.files.photo import Encoding, Photo, Pixels
from tecu.lowlight.files.png_colour import colour_chunks
from tecu.lowlight.files.samples import colour_key, is_large_colour, keyed_alpha, samples_of, tiff_has_floats
from tecu.lowlight.files.sixteen import is_sixteen_bit_colour, read_sixteen

MAX_PIXELS = 200_000_000
MAX_STREAM = 1 << 30  # bytes held in memory when a pipe is read
FORMATS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "AVIF": (".avif",),
    "BMP": (".bmp", ".dib"),
}
MPO_SUFFIXES = frozenset({".mpo"})  # a JPEG file with more pictures behind the first; read, not written
READABLE = (
    frozenset(s for group in FORMATS.values() for s in group)
    | MPO_SUFFIXES
    | foreign.HEIF_SUFFIXES
    | foreign.RAW_SUFFIXES
)
"""Suffixes (lower case) of the files taken from a folder; a file named outright is judged by its content."""

Source = str | os.PathLike[str] | bytes | BinaryIO
OPENING: dict[type[Exception], str] = {
    FileNotFoundError: "there is no such file",
    PermissionError: "permission denied",
}
NEVER_RAW = (b"\xff\xd8\xff", b"\x89PNG")  # a JPEG or PNG file, whatever its name
DNG_VERSION = 50706  # a tag that every DNG file has, whatever its name
CANON = b"II*\0\x10\0\0\0CR\2\0"
REDUCED, FURTHER_PICTURES = 254, 330
_limit = threading.Lock()


def read_photo(source: Source, *, max_pixels: int = MAX_PIXELS) -> Photo:
    """The photo in a file, in ``bytes`` or in an open binary stream; the content decides on the kind.

    Nothing is decoded when the file says it has more than ``max_pixels``. Every failure is a
    :class:`~tecu.lowlight.files.errors.PhotoError` whose text is a sentence.

    >>> read_photo(b"not a photo")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tecu.lowlight.files.errors.UnreadableFile: <bytes> is not a photo of a kind that is read (...), or it is damaged
    """
    with _opened(source) as (file, name):
        try:
            return _decode(file, name, max_pixels)
        except PhotoError:
            raise
        except MemoryError as error:
            raise UnreadableFile(f"{name} could not be decoded: there is not enough memory") from error
        except Exception as error:  # decoders meet damaged files with errors of every kind
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UnreadableFile(f"{name} could not be decoded: {reason}") from error


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    if isinstance(source, bytes):
        yield io.BytesIO(source), "<bytes>"
        return
    if not isinstance(source, str | os.PathLike):
        yield source, shown(getattr(source, "name", "<stream>"))
        return
    name = shown(source)
    try:
        # O_NONBLOCK: opening a named pipe must not wait for a writer
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(source, flags)
    except (OSError, ValueError) as error:
        reason = OPENING.get(type(error), getattr(error, "strerror", None) or str(error))
        raise UnreadableFile(f"{name} could not be opened: {reason}") from error
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        os.close(descriptor)
        raise UnreadableFile(f"{name} is {'a folder' if stat.S_ISDIR(kind) else 'not a regular file'}")
    with open(descriptor, "rb") as file:
        yield file, name


def _decode(file: BinaryIO, name: str, max_pixels: int) -> Photo:
    if not file.seekable():
        held = file.read(MAX_STREAM + 1)
        if len(held) > MAX_STREAM:
            raise UnreadableFile(f"{name} is longer than {MAX_STREAM:,} bytes; give it as a file")
        file = io.BytesIO(held)
    head = file.read(4096)
    file.seek(-len(head), os.SEEK_CUR)
    start = file.tell()
    if not head:
        raise UnreadableFile(f"{name} is empty (0 bytes)")
    if PurePath(name).suffix.lower() in foreign.RAW_SUFFIXES and not head.startswith(NEVER_RAW):
        return foreign.read_raw(file, name, max_pixels)
    if foreign.is_heif(head):
        return _photo(foreign.open_heif(file, name, max_pixels), Encoding("HEIF", lossless=False), [])
    image = _open(file, name)
    if _is_raw(image, head):
        file.seek(start)
        return foreign.read_raw(file, name, max_pixels)
    foreign.check_size(image.size, name, max_pixels)
    photo = _by_pillow(image, file, name, start)
    if image.format != "PNG":
        return photo
    return replace(photo, metadata=replace(photo.metadata, colour=colour_chunks(file, start)))


def _is_raw(image: ImageFile.ImageFile, head: bytes) -> bool:
    """Whether it is a TIFF whose first picture is a thumbnail of the RAW one: DNG, CR2, NEF, ARW."""
    tags = getattr(image, "tag_v2", None)
    if tags is None:
        return False
    kind = tags.get(REDUCED)
    is_thumbnail = isinstance(kind, int) and kind & 1 == 1 and FURTHER_PICTURES in tags
    return DNG_VERSION in tags or head.startswith(CANON) or is_thumbnail


def _by_pillow(image: ImageFile.ImageFile, file: BinaryIO, name: str, start: int) -> Photo:
    notes: list[str] = []
    if (frames := getattr(image, "n_frames", 1)) > 1:
        notes.append(f"only the first of the file's {frames} pictures was taken")
    if is_sixteen_bit_colour(image):

        def reopen() -> ImageFile.ImageFile:
            file.seek(start)
            return _open(file, name)

        samples = read_sixteen(image, reopen)
        return _photo(image, _encoding(image, file, start), notes, samples, colour_key(image))
    _refuse_unusual(image, name)
    key = colour_key(image)
    if is_large_colour(image) and image.format in zero_copy.FORMATS:
        whole = zero_copy.decoded(image)
        if whole is not None:
            return _photo(image, _encoding(image, file, start), notes, whole[..., :3], key)
    image.load()
    return _photo(image, _encoding(image, file, start), notes, key=key)


def _open(file: BinaryIO, name: str) -> ImageFile.ImageFile:
    start = file.tell()
    with _limit:  # Pillow's own limit is a global; the caller's limit is checked right after, before decoding
        kept, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=tuple(FORMATS))
        except UnidentifiedImageError as error:
            file.seek(start)
            if tiff_has_floats(file):
                raise _not_read(name, "floating-point") from error
            kinds = ", ".join(FORMATS)
            raise UnreadableFile(
                f"{name} is not a photo of a kind that is read ({kinds}, HEIF, RAW), or it is damaged"
            ) from error
        finally:
            Image.MAX_IMAGE_PIXELS = kept


def _refuse_unusual(image: ImageFile.ImageFile, name: str) -> None:
    """What Pillow opens but would decode wrongly or not into 8 or 16 bits."""
    if image.mode in ("F", "I", "LAB", "HSV"):
        kind = {"F": "floating-point", "I": "32-bit"}.get(image.mode, image.mode)
        raise _not_read(name, kind)
    tags = getattr(image, "tag_v2", None)
    bits = max(np.atleast_1d(tags.get(258, 8))) if tags is not None else 8
    if bits > 8 and not image.mode.startswith("I;16"):
        raise UnreadableFile(
            f"{name} is a TIFF with {bits} bits a channel in a layout that is not read ({image.mode}, "
            f"separate planes or premultiplied); 16 bits are read in grey, RGB and RGBA, interleaved"
        )


def _not_read(name: str, kind: str) -> UnreadableFile:
    return UnreadableFile(f"{name} has {kind} pixels; 8 and 16 bits a channel in grey, RGB or CMYK are read")


def _photo(
    image: Image.Image,
    encoding: Encoding,
    notes: list[str],
    samples: Pixels | None = None,
    key: tuple[int, ...] | None = None,
) -> Photo:
    metadata, orientation, dropped = read_metadata(image)
    if samples is None:
        samples, icc, changed = samples_of(image, metadata.icc)
        metadata = replace(metadata, icc=icc)
        notes = notes + changed
    samples = upright(samples, orientation)
    if samples.ndim == 2:
        pixels, alpha = samples, None
    else:
        colours = 1 if samples.shape[2] == 2 else 3
        pixels = samples if samples.shape[2] == 3 else np.ascontiguousarray(samples[..., :3])
        pixels = np.ascontiguousarray(samples[..., 0]) if colours == 1 else pixels
        alpha = np.ascontiguousarray(samples[..., -1]) if samples.shape[2] > colours else None
    if alpha is None and key is not None:
        alpha = keyed_alpha(pixels, key)
    return Photo(pixels, alpha, metadata, encoding, (*notes, *dropped))


def _encoding(image: ImageFile.ImageFile, file: BinaryIO, start: int) -> Encoding:
    if image.format in ("JPEG", "MPO"):
        from PIL import JpegImagePlugin

        sampling = JpegImagePlugin.get_sampling(image) if image.mode == "RGB" else -1
        tables = getattr(image, "quantization", None) if image.mode != "CMYK" else None
        progressive = bool(image.info.get("progressive"))
        return Encoding("JPEG", tables, sampling if sampling >= 0 else None, progressive, lossless=False)
    if image.format == "WEBP":
        return Encoding("WEBP", lossless=_webp_is_lossless(file, start))
    return Encoding(image.format or "PNG", lossless=image.format != "AVIF")


def _webp_is_lossless(file: BinaryIO, start: int) -> bool:
    """Whether the first picture chunk is ``VP8L``."""
    position = start + 12  # after RIFF, size, WEBP
    for _ in range(16):  # profile, transparency and the like come first
        file.seek(position)
        chunk = file.read(8)
        if len(chunk) < 8 or chunk[:4] in (b"VP8 ", b"VP8L"):
            return chunk[:4] == b"VP8L"
        length = int.from_bytes(chunk[4:], "little")
        position += 8 + (16 if chunk[:4] == b"ANMF" else length + length % 2)
    return False
