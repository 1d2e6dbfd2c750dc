"""Broken files: each gives a photo or one typed error with a sentence, in bounded time and memory."""

import io
import os
import struct
import sys
import tracemalloc
import types
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

from tecu.lowlight.files import (
    MissingPart,
    Photo,
    PhotoError,
    TooManyPixels,
    UnreadableFile,
    encode_photo,
    foreign,
    read,
    read_photo,
)

PHOTO = data.astronaut()[60:124, 150:230]
FORMATS = ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "BMP"]


def saved(format, pixels=PHOTO, **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format, **options)
    return out.getvalue()


FILES = {format: saved(format) for format in FORMATS}
FILES["TIFF packed"] = saved("TIFF", compression="tiff_lzw")
FILES["PNG 16"] = encode_photo(Photo(PHOTO.astype(np.uint16) * 200), "PNG")[0]
FILES["TIFF 16"] = encode_photo(Photo(PHOTO.astype(np.uint16) * 200), "TIFF")[0]
EXIF = Image.Exif()
EXIF[0x0112] = 6
FILES["JPEG exif"] = saved("JPEG", exif=EXIF.tobytes(), progressive=True)


def outcome(file, **options):
    """A photo, or the typed error; anything else is a failure of the test."""
    try:
        result = read_photo(file, **options)
    except PhotoError as error:
        result = error
    assert isinstance(result, Photo) or len(str(result).splitlines()) == 1
    return result


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # Pillow warns about truncated TIFF directories
def test_truncated(kind, share):
    whole = FILES[kind]
    assert isinstance(outcome(whole[: int(len(whole) * share)]), UnreadableFile)


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_of_half_a_photo_it_is_not_said_that_it_is_none(kind):
    half = outcome(FILES[kind][: len(FILES[kind]) // 2])
    assert "not a photo" not in str(half) or "damaged" in str(half)


def test_empty(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(UnreadableFile, match=r"a\.jpg is empty"):
        read_photo(tmp_path / "a.jpg")


@pytest.mark.parametrize("content", [b"\0" * 5000, b"hello", b"<html></html>", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP"])
def test_not_a_photo(content):
    assert isinstance(outcome(content), UnreadableFile)


def test_a_folder_named_like_a_photo(tmp_path):
    (tmp_path / "x.jpg").mkdir()
    with pytest.raises(UnreadableFile, match="is a folder"):
        read_photo(tmp_path / "x.jpg")


def test_missing_and_impossible_names(tmp_path):
    with pytest.raises(UnreadableFile, match="no such file"):
        read_photo(tmp_path / "no.jpg")
    with pytest.raises(UnreadableFile, match="could not be opened"):
        read_photo("a\0b.jpg")
    with pytest.raises(UnreadableFile, match="could not be opened"):
        read_photo(tmp_path / ("x" * 400))
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    with pytest.raises(UnreadableFile, match="could not be opened"):
        read_photo(tmp_path / "loop.jpg")


def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(UnreadableFile, match="not a regular file"):
        read_photo(tmp_path / "pipe.jpg")


def test_a_link_is_followed(tmp_path):
    (tmp_path / "a.png").write_bytes(FILES["PNG"])
    (tmp_path / "link.png").symlink_to("a.png")
    assert np.array_equal(read_photo(tmp_path / "link.png").pixels, PHOTO)


def png_header(columns, rows, bits=8, colour=2, body=b""):
    def chunk(kind, payload):
        return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))

    header = struct.pack(">IIBBBBB", columns, rows, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(2**31 - 1, 2**31 - 1), (1, 2**31 - 1), (100_000, 100_000), (15_000, 14_000)])
@pytest.mark.parametrize("bits", [8, 16])
def test_absurd_sizes_are_refused_before_decoding(size, bits):
    tracemalloc.start()
    try:
        error = outcome(png_header(*size, bits))
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert isinstance(error, TooManyPixels)
    assert f"{size[0]} x {size[1]}" in str(error)


def test_sides_of_zero():
    assert isinstance(outcome(png_header(0, 10)), UnreadableFile)


def test_the_limit_is_the_callers():
    rows, columns = PHOTO.shape[:2]
    for file in FILES.values():
        assert isinstance(outcome(file, max_pixels=rows * columns - 1), TooManyPixels)
        assert isinstance(outcome(file, max_pixels=rows * columns), Photo)


def test_pillows_own_limit_neither_hinders_nor_changes(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert isinstance(outcome(FILES["PNG"]), Photo)
    assert Image.MAX_IMAGE_PIXELS == 100


def test_a_bomb_in_a_profile_is_bounded():
    bomb = zlib.compress(b"\0" * 300_000_000, 9)

    def chunk(kind, payload):
        return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))

    png = FILES["PNG"]
    file = png[:33] + chunk(b"iCCP", b"x\0\0" + bomb) + png[33:]
    tracemalloc.start()
    try:
        outcome(file)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9, 9), (9, 9, 3)])
@pytest.mark.parametrize("options", [{}, {"bigtiff": True}, {"byteorder": ">"}], ids=["plain", "bigtiff", "big-endian"])
def test_floating_point_pixels_are_named(kind, shape, options):
    import tifffile

    file = io.BytesIO()
    tifffile.imwrite(file, np.zeros(shape, kind), photometric="minisblack" if len(shape) == 2 else "rgb", **options)
    with pytest.raises(UnreadableFile, match="has floating-point pixels; 8 and 16 bits a channel"):
        read_photo(file.getvalue())


def test_kinds_of_pixels_that_are_not_read_are_named():
    import tifffile

    planes, premultiplied = io.BytesIO(), io.BytesIO()
    tifffile.imwrite(planes, np.zeros((3, 9, 9), np.uint16), photometric="rgb", planarconfig="separate")
    tifffile.imwrite(premultiplied, np.zeros((9, 9, 4), np.uint16), photometric="rgb", extrasamples=["assocalpha"])
    for file in (planes, premultiplied):
        with pytest.raises(UnreadableFile, match="layout that is not read"):
            read_photo(file.getvalue())


def test_streams(monkeypatch):
    assert np.array_equal(read_photo(io.BytesIO(FILES["PNG"])).pixels, PHOTO)

    def through_a_pipe():
        reading, writing = os.pipe()
        with open(reading, "rb") as source:
            with open(writing, "wb") as sink:
                sink.write(FILES["PNG"])
            return outcome(source)

    assert np.array_equal(through_a_pipe().pixels, PHOTO)
    monkeypatch.setattr(read, "MAX_STREAM", 1000)
    assert "is longer than 1,000 bytes" in str(through_a_pipe())


# ---- optional parts ----


HEIC = struct.pack(">I4s4sI4s4s", 24, b"ftyp", b"heic", 0, b"mif1", b"heic") + bytes(100)


def test_heif_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(MissingPart, match=r"pip install 'tecu\[heif\]'"):
        read_photo(HEIC)


def test_raw_without_its_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rawpy", None)
    (tmp_path / "a.NEF").write_bytes(b"II*\0" + bytes(100))
    with pytest.raises(MissingPart, match=r"pip install 'tecu\[raw\]'"):
        read_photo(tmp_path / "a.NEF")


def test_heif_through_its_package(monkeypatch):
    class Container:
        size = (PHOTO.shape[1], PHOTO.shape[0])

        def to_pillow(self):
            return Image.fromarray(PHOTO)

    package = types.ModuleType("pi_heif")
    package.open_heif = lambda file, convert_hdr_to_8bit: Container()
    monkeypatch.setitem(sys.modules, "pi_heif", package)
    photo = read_photo(HEIC)
    assert np.array_equal(photo.pixels, PHOTO)
    assert encode_photo(photo, "JPEG")[0][:2] == b"\xff\xd8"
    assert isinstance(outcome(HEIC, max_pixels=10), TooManyPixels)


def camera_raw(path):
    """A small DNG: one value a pixel under a mosaic of colour filters."""
    import tifffile

    def fractions(values):
        return [part for value in values for part in (round(value * 10_000), 10_000)]

    rows, columns = np.mgrid[:60, :80]
    mosaic = (2000 + 100 * columns + 60 * rows).astype(np.uint16)
    version, filters = (1, 4, 0, 0), (0, 1, 1, 2)
    tags = [(50706, "B", 4, version, True), (50708, "s", 0, "Acme One", True), (33421, "H", 2, (2, 2), True)]
    tags += [(33422, "B", 4, filters, True), (50714, "H", 1, (512,), True), (50717, "I", 1, (16_383,), True)]
    tags += [(50721, "2i", 9, fractions(np.eye(3).ravel()), True), (50728, "2I", 3, fractions([0.5, 1, 0.6]), True)]
    tags += [(50778, "H", 1, (21,), True), (271, "s", 0, "Acme", True), (272, "s", 0, "One", True)]
    tifffile.imwrite(path, mosaic, photometric=32803, extratags=tags)


def test_raw_through_its_package(tmp_path):
    camera_raw(tmp_path / "a.dng")
    photo = read_photo(tmp_path / "a.dng")
    assert (photo.size, photo.bits) == ((80, 60), 16)
    assert "white balance" in photo.notes[0]
    green = photo.pixels[8:-8, 8:-8, 1].astype(float)
    assert np.all(np.diff(green.mean(axis=0)) > 0)  # brighter to the right, as it was made
    assert isinstance(outcome(tmp_path / "a.dng", max_pixels=10), TooManyPixels)


def test_damaged_heif_and_raw(tmp_path):
    assert isinstance(outcome(HEIC), UnreadableFile)
    (tmp_path / "a.dng").write_bytes(FILES["TIFF"][:200])
    assert isinstance(outcome(tmp_path / "a.dng"), UnreadableFile)


def test_avif_is_not_taken_for_heif():
    assert not foreign.is_heif(FILES["AVIF"][:4096])
    assert foreign.is_heif(HEIC)


# ---- fuzzing: bounded to seconds; make fuzz (TECU_FUZZ=100) makes a hundred times as many examples ----

FUZZ = int(os.environ.get("TECU_FUZZ", "1"))


@pytest.mark.fuzz
@settings(max_examples=300 * FUZZ, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(FILES)),
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)), max_size=6),
    cut=st.floats(0.5, 1.5),
)
@pytest.mark.filterwarnings("ignore")  # Pillow warns about much of this
def test_edited_files(kind, edits, cut):
    file = bytearray(FILES[kind])
    for where, piece in edits:
        # half of the edits fall into the first 300 bytes, where headers are
        at = int(2 * where * 300) % len(file) if where < 0.5 else int((2 * where - 1) * len(file))
        file[at : at + len(piece)] = piece
    outcome(bytes(file[: int(cut * len(file))]), max_pixels=1_000_000)


@pytest.mark.fuzz
@settings(max_examples=150 * FUZZ, deadline=None)
@given(start=st.sampled_from([file[:12] for file in FILES.values()]), rest=st.binary(max_size=400))
@pytest.mark.filterwarnings("ignore")
def test_random_files(start, rest):
    outcome(start + rest, max_pixels=1_000_000)
