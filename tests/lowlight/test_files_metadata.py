"""EXIF, colours and resolution survive; what would be wrong in the result does not."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageCms, ImageOps, PngImagePlugin, TiffImagePlugin
from skimage import data

from lowlight.scenes import inks_profile
from tecu.lowlight.files import Metadata, Photo, encode_photo, read_photo, write_photo
from tecu.lowlight.files.metadata import read_metadata

PHOTO = data.astronaut()[40:100, 150:240]
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
KEEPS_EXIF = ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"]
MAKE, DATE, EXPOSURE, NOTE = 0x010F, 0x9003, 0x829A, 0x927C


def exif(orientation=1):
    tags = Image.Exif()
    tags[MAKE] = "Acme"
    tags[ExifTags.Base.Orientation] = orientation
    inner = tags.get_ifd(ExifTags.IFD.Exif)
    inner[DATE] = "2024:05:06 07:08:09"
    inner[EXPOSURE] = 0.05
    inner[NOTE] = b"maker\0note"
    inner[0xA002], inner[0xA003] = PHOTO.shape[1], PHOTO.shape[0]
    tags.get_ifd(ExifTags.IFD.GPSInfo)[1] = "N"
    return tags


def saved(format, orientation=1, pixels=PHOTO, **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(
        out, format, exif=exif(orientation).tobytes(), icc_profile=PROFILE, dpi=(300, 300), **options
    )
    return out.getvalue()


def reopened(photo, format, **options):
    data_, _ = encode_photo(photo, format, **options)
    return Image.open(io.BytesIO(data_))


@pytest.mark.parametrize("source", KEEPS_EXIF)
@pytest.mark.parametrize("target", KEEPS_EXIF)
def test_exif_and_icc_survive_from_every_format_to_every_other(source, target):
    image = reopened(read_photo(saved(source)), target)
    tags = image.getexif()
    assert tags[MAKE] == "Acme"
    assert tags.get_ifd(ExifTags.IFD.Exif)[DATE] == "2024:05:06 07:08:09"
    assert float(tags.get_ifd(ExifTags.IFD.Exif)[EXPOSURE]) == pytest.approx(0.05)
    assert tags.get_ifd(ExifTags.IFD.Exif)[NOTE] == b"maker\0note"
    assert tags.get_ifd(ExifTags.IFD.GPSInfo)[1] == "N"
    assert image.info["icc_profile"] == PROFILE


@pytest.mark.parametrize("source", ["JPEG", "PNG", "TIFF", "BMP"])
@pytest.mark.parametrize("target", ["JPEG", "PNG", "TIFF", "BMP"])
def test_resolution_survives(source, target):
    image = reopened(read_photo(saved(source)), target)
    assert tuple(map(float, image.info["dpi"])) == pytest.approx((300, 300), abs=0.1)


@pytest.mark.parametrize("target", ["PNG", "TIFF"])
def test_sixteen_bit_files_keep_their_metadata(target):
    eight = read_photo(saved("JPEG"))
    deep = Photo(eight.pixels.astype(np.uint16) * 257, metadata=eight.metadata)
    image = reopened(deep, target)
    image.load()
    tags = image.getexif()
    assert tags[MAKE] == "Acme"
    assert tags.get_ifd(ExifTags.IFD.Exif)[DATE] == "2024:05:06 07:08:09"
    assert tags.get_ifd(ExifTags.IFD.GPSInfo)[1] == "N"
    assert image.info["icc_profile"] == PROFILE
    assert tuple(map(float, image.info["dpi"])) == pytest.approx((300, 300), abs=0.1)


@pytest.mark.parametrize("format", KEEPS_EXIF)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_once_and_reset(format, orientation):
    options = {"lossless": True} if format == "WEBP" else {}
    file = saved(format, orientation, **options)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
    photo = read_photo(file)
    assert np.array_equal(photo.pixels, expected)
    again = reopened(photo, format)
    assert again.size == expected.shape[1::-1]
    assert again.getexif().get(ExifTags.Base.Orientation, 1) == 1
    upright = np.asarray(ImageOps.exif_transpose(again))
    assert np.mean(np.abs(upright.astype(float) - expected)) < 3


@pytest.mark.parametrize("format", KEEPS_EXIF)
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_the_size_in_the_exif_is_that_of_the_result(format, orientation):
    image = reopened(read_photo(saved(format, orientation)), format)
    inner = image.getexif().get_ifd(ExifTags.IFD.Exif)
    assert (inner[0xA002], inner[0xA003]) == image.size


def test_transparency_turns_with_the_photo():
    alpha = np.zeros(PHOTO.shape[:2], np.uint8)
    alpha[:, 0] = 255  # the left column
    photo = read_photo(saved("PNG", 6, np.dstack([PHOTO, alpha])))  # 6: turned by 90 degrees clockwise
    assert (photo.alpha[0] == 255).all()
    assert (photo.alpha[1:] == 0).all()


def test_the_stale_thumbnail_is_dropped():
    small = io.BytesIO()
    Image.fromarray(PHOTO).resize((16, 12)).save(small, "JPEG")
    tags = exif().tobytes()
    # Append a second directory with the thumbnail by hand: Pillow does not write one.
    body = bytearray(tags.removeprefix(b"Exif\0\0"))
    order = "little" if body[:2] == b"II" else "big"
    first = int.from_bytes(body[4:8], order)
    link = first + 2 + 12 * int.from_bytes(body[first : first + 2], order)
    body[link : link + 4] = len(body).to_bytes(4, order)
    thumbnail = small.getvalue()
    where = len(body) + 2 + 24 + 4
    entries = [(0x0201, 4, 1, where), (0x0202, 4, 1, len(thumbnail))]
    body += len(entries).to_bytes(2, order)
    for tag, kind, count, value in entries:
        body += tag.to_bytes(2, order) + kind.to_bytes(2, order) + count.to_bytes(4, order) + value.to_bytes(4, order)
    body += bytes(4) + thumbnail
    out = io.BytesIO()
    Image.fromarray(PHOTO).save(out, "JPEG", exif=b"Exif\0\0" + bytes(body))
    assert Image.open(io.BytesIO(out.getvalue())).getexif().get_ifd(ExifTags.IFD.IFD1)  # it is there
    again, _ = encode_photo(read_photo(out.getvalue()), "JPEG")
    assert not Image.open(io.BytesIO(again)).getexif().get_ifd(ExifTags.IFD.IFD1)
    assert thumbnail not in again
    assert Image.open(io.BytesIO(again)).getexif()[MAKE] == "Acme"


@pytest.mark.parametrize("format", [*KEEPS_EXIF, "BMP"])
def test_strip_drops_everything(format):
    image = reopened(read_photo(saved("JPEG")), format, strip_metadata=True)
    image.load()
    assert MAKE not in image.getexif()
    assert not image.getexif().get_ifd(ExifTags.IFD.GPSInfo)
    assert "icc_profile" not in image.info


@pytest.mark.parametrize("bits", [8, 16])
def test_strip_keeps_the_picture_upright(bits):
    photo = read_photo(saved("PNG", 6))
    if bits == 16:
        photo = photo.with_pixels(photo.pixels.astype(np.uint16) * 257)
    again, _ = encode_photo(photo, "PNG", strip_metadata=True)
    assert np.array_equal(read_photo(again).pixels, photo.pixels)


def test_bmp_says_what_it_dropped():
    _, notes = encode_photo(read_photo(saved("JPEG")), "BMP")
    assert notes == ("BMP holds no EXIF data and no ICC profile: they were dropped",)


@pytest.mark.parametrize(
    "damaged",
    [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\x7f", b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + b"\xff" * 40],
    ids=["garbage", "offset beyond the end", "65,535 entries"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns about such EXIF
def test_damaged_exif_does_not_cost_the_photo(damaged):
    out = io.BytesIO()
    Image.fromarray(PHOTO).save(out, "JPEG", exif=damaged)
    photo = read_photo(out.getvalue())
    assert photo.pixels.shape == PHOTO.shape
    assert encode_photo(photo, "JPEG")[0]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_an_orientation_that_does_not_exist_is_taken_as_upright(orientation):
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = orientation
    out = io.BytesIO()
    Image.fromarray(PHOTO).save(out, "PNG", exif=tags.tobytes())
    assert np.array_equal(read_photo(out.getvalue()).pixels, PHOTO)


def test_cmyk_goes_through_its_profile_and_drops_it():
    image = Image.fromarray(PHOTO).convert("CMYK")
    out = io.BytesIO()
    image.save(out, "TIFF", icc_profile=PROFILE)  # a profile that does not fit: the plain rule is used
    photo = read_photo(out.getvalue())
    assert photo.metadata.icc is None
    assert photo.pixels.shape == PHOTO.shape


GREY_PROFILE = PROFILE[:16] + b"GRAY" + PROFILE[20:]


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("target", KEEPS_EXIF)
def test_a_profile_of_grey_stays_with_grey(target, bits, alpha):
    grey = PHOTO[..., 0].astype(f"u{bits // 8}")
    photo = Photo(grey, grey[::-1] if alpha else None, Metadata(icc=GREY_PROFILE))
    file, notes = encode_photo(photo, target)
    image = Image.open(io.BytesIO(file))
    in_colour = image.mode in ("RGB", "RGBA")
    # 16-bit grey with transparency comes back as 8-bit RGBA from Pillow: the file's own word counts
    in_colour = in_colour and not (target == "PNG" and file[25] == 4)
    assert ("icc_profile" in image.info) is not in_colour
    assert any("profile" in note for note in notes) is in_colour
    assert image.info.get("icc_profile", GREY_PROFILE) == GREY_PROFILE


def test_inks_are_taken_for_the_colours_that_the_profile_gives_them():
    out = io.BytesIO()
    Image.new("CMYK", (8, 8), (255, 0, 0, 0)).save(out, "TIFF", icc_profile=inks_profile())
    red, _, blue = read_photo(out.getvalue()).pixels[0, 0]
    assert red > 200 > 60 > blue  # without the profile, cyan has no red at all


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize("packed", [None, "zlib"])
def test_sixteen_bit_files_are_turned_too(orientation, packed):
    import tifffile

    deep, out = PHOTO.astype(np.uint16) * 257 + 3, io.BytesIO()
    tag = (ExifTags.Base.Orientation.value, "H", 1, orientation, True)
    tifffile.imwrite(out, deep, photometric="rgb", extratags=[tag], compression=packed)
    expected = np.rot90(deep, 2) if orientation == 3 else np.rot90(deep, -1)
    assert np.array_equal(read_photo(out.getvalue()).pixels, expected)
    tags = Image.Exif()
    tags[ExifTags.Base.Orientation] = orientation
    turned, _ = encode_photo(Photo(deep, metadata=Metadata(exif=tags.tobytes())), "PNG")
    assert np.array_equal(read_photo(turned).pixels, expected)


ARTIST, OWNER = 0x013B, 0xA430  # one among the picture's own tags, one in the table of the camera's
TEXTS = ["© Müller".encode("latin-1"), "Jörg Müller, 東京".encode()]


def with_texts(text, note=4):
    """EXIF data as another program writes it: Pillow writes letters of the same number, here replaced by ``text``."""
    tags, letters = exif(), "#" * len(text)
    inner = tags.get_ifd(ExifTags.IFD.Exif)
    tags[ARTIST], inner[OWNER], inner[NOTE] = letters, letters, bytes(note)
    return tags.tobytes().replace(letters.encode(), text)


def texts(image):
    """The bytes of artist and owner, which Pillow reads as so many letters."""
    tags = image.getexif()
    return [text.encode("latin-1") for text in (tags[ARTIST], tags.get_ifd(ExifTags.IFD.Exif)[OWNER])]


@pytest.mark.parametrize("note", [4, 90_000], ids=["short", "too long for a JPEG"])
@pytest.mark.parametrize("target", KEEPS_EXIF)
@pytest.mark.parametrize("text", TEXTS, ids=["Latin-1", "UTF-8"])
def test_texts_keep_their_bytes_in_every_format(text, target, note):
    out = io.BytesIO()
    Image.fromarray(PHOTO).save(out, "PNG", exif=with_texts(text, note))
    photo = read_photo(out.getvalue())
    assert texts(reopened(photo, target)) == [text, text]
    again = read_photo(encode_photo(photo, target)[0])
    assert texts(reopened(again, "JPEG")) == [text, text]
    if target in ("PNG", "TIFF"):
        assert texts(reopened(photo.with_pixels(photo.pixels.astype(np.uint16)), target)) == [text, text]


def test_texts_that_came_from_no_file_are_written_as_utf8():
    tags, out = exif(), io.BytesIO()
    tags[ARTIST] = "東京"
    image = Image.fromarray(PHOTO)
    image.getexif().update(tags)
    exif_bytes = read_metadata(image)[0].exif
    Image.fromarray(PHOTO).save(out, "JPEG", exif=exif_bytes)
    assert Image.open(out).getexif()[ARTIST].encode("latin-1") == "東京".encode()


def long_exif(length, tag=NOTE):
    tags = exif()
    tags.get_ifd(ExifTags.IFD.Exif)[tag] = bytes(length)
    return tags.tobytes()


@pytest.mark.parametrize("target", KEEPS_EXIF)
def test_exif_of_any_length_survives_where_the_format_holds_it(target):
    out = io.BytesIO()
    Image.fromarray(PHOTO).save(out, "PNG", exif=long_exif(200_000))
    photo = read_photo(out.getvalue())
    assert photo.notes == ()
    file, notes = encode_photo(photo, target)
    tags = Image.open(io.BytesIO(file)).getexif()
    assert tags[MAKE] == "Acme"
    assert tags.get_ifd(ExifTags.IFD.Exif)[DATE] == "2024:05:06 07:08:09"
    assert tags.get_ifd(ExifTags.IFD.GPSInfo)[1] == "N"
    if target == "JPEG":
        assert notes == ("JPEG holds 65,533 bytes of EXIF data: MakerNote had to be dropped",)
        assert NOTE not in tags.get_ifd(ExifTags.IFD.Exif)
    else:
        assert notes == ()
        assert tags.get_ifd(ExifTags.IFD.Exif)[NOTE] == bytes(200_000)


def test_a_jpeg_is_filled_to_its_last_byte():
    rest = len(long_exif(1000)) - 1000
    for length, kept in [(65_533, True), (65_534, False)]:
        block = long_exif((length - rest) // 2 * 2).ljust(length, b"\0")  # Pillow makes them of an even length
        file, notes = encode_photo(Photo(PHOTO, metadata=Metadata(exif=block)), "JPEG")
        inner = Image.open(io.BytesIO(file)).getexif().get_ifd(ExifTags.IFD.Exif)
        assert (NOTE in inner) is kept
        assert (notes == ()) is kept
        assert inner[DATE] == "2024:05:06 07:08:09"


def test_the_longest_tags_follow_the_makers_note():
    comment = 0x9286
    photo = Photo(PHOTO, metadata=Metadata(exif=long_exif(90_000, comment)))
    file, notes = encode_photo(photo, "JPEG")
    assert notes == ("JPEG holds 65,533 bytes of EXIF data: MakerNote, UserComment had to be dropped",)
    tags = Image.open(io.BytesIO(file)).getexif()
    assert tags.get_ifd(ExifTags.IFD.Exif)[DATE] == "2024:05:06 07:08:09"
    assert tags.get_ifd(ExifTags.IFD.GPSInfo)[1] == "N"


def test_no_pointer_into_the_old_file_is_kept(tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    exif[0x8769] = {0x9003: "2020:01:01 00:00:00", 0xA005: 1366}
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    write_photo(read_photo(tmp_path / "a.jpg"), tmp_path / "b.jpg")
    with Image.open(tmp_path / "b.jpg") as result:
        found = result.getexif().get_ifd(0x8769)
    assert found[0x9003] == "2020:01:01 00:00:00"
    assert 0xA005 not in found


@pytest.mark.parametrize("target", KEEPS_EXIF)
@pytest.mark.parametrize("tag", [347, 700, 33723, 34377], ids=["JPEGTables", "XMP", "IPTC", "Photoshop"])
def test_tags_about_the_old_file_are_not_taken_over(tag, target):
    info, out = TiffImagePlugin.ImageFileDirectory_v2(), io.BytesIO()
    info[MAKE], info[tag], info.tagtype[tag] = "Acme", b"about the old file", 7
    Image.fromarray(PHOTO).save(out, "TIFF", tiffinfo=info)
    assert tag in Image.open(out).getexif()
    tags = reopened(read_photo(out.getvalue()), target).getexif()
    assert tag not in tags
    assert tags[MAKE] == "Acme"


@pytest.mark.parametrize("dpi", [(65_535, 300), (65_536, 300), (300, 99_999)])
@pytest.mark.parametrize("target", ["JPEG", "PNG", "TIFF", "BMP"])
def test_a_resolution_of_any_size_is_kept_or_said_to_be_dropped(dpi, target):
    data, notes = encode_photo(Photo(PHOTO, metadata=Metadata(dpi=dpi)), target)
    kept = read_photo(data).metadata.dpi
    assert ("the resolution was dropped" in "".join(notes)) == (kept is None)
    assert kept is None or np.allclose(kept, dpi, atol=0.02)


def test_a_tiff_without_a_resolution_gets_none(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.tif")
    photo = read_photo(tmp_path / "a.tif")
    assert photo.metadata.dpi is None


# ---- what files say of their colours beside a profile ----

GAMMA, P3 = (b"gAMA", struct.pack(">I", 100000)), (b"cICP", b"\x0c\x0d\0\1")
PRIMARIES = (b"cHRM", struct.pack(">8I", 31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000))
SRGB, SRGB_GAMMA = (b"sRGB", b"\0"), (b"gAMA", struct.pack(">I", 45455))


def png(*chunks, pixels=PHOTO, **options):
    info, out = PngImagePlugin.PngInfo(), io.BytesIO()
    for kind, content in chunks:
        info.add(kind, content)
    Image.fromarray(pixels).save(out, "PNG", pnginfo=info, **options)
    return out.getvalue()


def before_the_pixels(file):
    """The chunks of a PNG file up to its pixels, each of them by its length."""
    found, position = {}, 8
    while (kind := file[position + 4 : position + 8]) != b"IDAT":
        (length,) = struct.unpack_from(">I", file, position)
        found[kind] = file[position + 8 : position + 8 + length]
        position += 12 + length
    return found


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(
    "pixels", [PHOTO, PHOTO[..., 0], np.dstack([PHOTO, PHOTO[..., 0]])], ids=["rgb", "grey", "rgba"]
)
def test_png_chunks_on_colour_survive(bits, pixels):
    told = (GAMMA, PRIMARIES, P3)
    photo = read_photo(png(*told, pixels=pixels))
    if bits == 16:
        deep = Photo(photo.pixels.astype(np.uint16) * 257, metadata=photo.metadata)
        photo = read_photo(encode_photo(deep, "PNG")[0])
        assert photo.bits == 16
    again, notes = encode_photo(photo, "PNG")
    assert notes == ()
    assert set(told) <= set(before_the_pixels(again).items())
    assert not set(dict(told)) & set(before_the_pixels(encode_photo(photo, "PNG", strip_metadata=True)[0]))


@pytest.mark.parametrize("bits", [8, 16])
def test_a_png_with_a_profile_is_not_said_to_be_srgb_as_well(bits):
    photo = read_photo(png(SRGB))
    assert before_the_pixels(encode_photo(photo, "PNG")[0])[b"sRGB"] == b"\0"
    both = Photo(photo.pixels.astype(f"u{bits // 8}"), metadata=Metadata(icc=PROFILE, colour=(SRGB,)))
    kinds = set(before_the_pixels(encode_photo(both, "PNG")[0]))
    assert b"iCCP" in kinds
    assert b"sRGB" not in kinds


@pytest.mark.parametrize("target", ["JPEG", "WEBP", "TIFF", "AVIF", "BMP"])
def test_colours_that_another_format_cannot_tell_of_are_named(target):
    _, notes = encode_photo(read_photo(png(GAMMA, PRIMARIES)), target)
    assert notes == (f"{target} does not hold what gAMA and cHRM of PNG say of the colours: it was dropped",)
    assert "cICP" in encode_photo(read_photo(png(P3, SRGB)), target)[1][0]  # the one that counts
    for told in [(SRGB, SRGB_GAMMA), (SRGB_GAMMA,), ()]:  # what is taken as sRGB anyway
        assert encode_photo(read_photo(png(*told)), target)[1] == ()


def test_a_profile_makes_up_for_gamma_and_primaries():
    assert encode_photo(read_photo(png(GAMMA, icc_profile=PROFILE)), "JPEG")[1] == ()


def test_chunks_of_a_wrong_length_are_left_out():
    file = png(GAMMA)
    at = file.index(b"gAMA") - 4
    wrong = struct.pack(">I", 5) + b"cICP" + b"\x0c\x0d\0\1\1"
    wrong += struct.pack(">I", zlib.crc32(wrong[4:]))
    assert read_photo(file[:at] + wrong + file[at:]).metadata.colour == (GAMMA,)


@pytest.mark.parametrize("target", ["TIFF", "JPEG"])
def test_a_tiffs_white_and_primaries_survive(target):
    out, told = io.BytesIO(), {318: (0.3127, 0.329), 319: (0.68, 0.32, 0.265, 0.69, 0.15, 0.06)}
    Image.fromarray(PHOTO).save(out, "TIFF", tiffinfo=told)
    tags = reopened(read_photo(out.getvalue()), target).getexif()
    for tag, values in told.items():
        assert tuple(map(float, tags[tag])) == pytest.approx(values)
