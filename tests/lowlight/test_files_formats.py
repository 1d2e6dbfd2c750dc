"""What is read comes back: kinds of files, depths, channels."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin
from skimage import data
from skimage import io as skio

from tecu.lowlight import enhance
from tecu.lowlight.files import Photo, PhotoError, encode_photo, read_photo, write_photo
from tecu.lowlight.files.photo import Encoding
from tecu.lowlight.grid import LARGE
from tecu.metrics import psnr

RNG = np.random.default_rng(0)
PHOTO = data.astronaut()[40:140, 150:280]


def saved(image, format, **options):
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def noise(rows, columns, channels, dtype):
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    return RNG.integers(0, np.iinfo(dtype).max + 1, shape, dtype=dtype)


def split(samples):
    """Pixels and transparency of joined samples."""
    if samples.ndim == 2 or samples.shape[2] == 3:
        return samples, None
    return (samples[..., 0] if samples.shape[2] == 2 else samples[..., :3]), samples[..., -1]


@pytest.mark.parametrize("suffix", [".png", ".tif", ".TIFF", ".webp"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_lossless_eight_bit_round_trip(tmp_path, suffix, channels):
    pixels, alpha = split(noise(37, 53, channels, np.uint8))
    path = tmp_path / f"a{suffix}"
    assert write_photo(Photo(pixels, alpha), path) == ()
    back = read_photo(path)
    if suffix == ".webp" and pixels.ndim == 2:  # WebP has no grey
        assert all(np.array_equal(back.pixels[..., c], pixels) for c in range(3))
    else:
        assert np.array_equal(back.pixels, pixels)
    assert (back.alpha is None) == (alpha is None)
    assert alpha is None or np.array_equal(back.alpha, alpha)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("rows", [1, 37, 150])
def test_sixteen_bit_round_trip(tmp_path, suffix, channels, rows):
    pixels, alpha = split(noise(rows, 53, channels, np.uint16))
    path = tmp_path / f"a{suffix}"
    assert write_photo(Photo(pixels, alpha), path) == ()
    back = read_photo(path)
    assert back.bits == 16
    if suffix == ".tif" and channels == 2:  # written as RGBA, because hardly anything reads grey with alpha
        assert np.array_equal(back.pixels[..., 1], pixels)
    else:
        assert np.array_equal(back.pixels, pixels)
    assert alpha is None or np.array_equal(back.alpha, alpha)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_other_programs_read_our_sixteen_bits(tmp_path, suffix, channels):
    import tifffile

    samples = noise(40, 31, channels, np.uint16)
    path = tmp_path / f"a{suffix}"
    write_photo(Photo(*split(samples)), path)
    if suffix == ".tif":
        theirs = _tifffile_without_codecs(tifffile, path)
        assert np.array_equal(theirs.reshape(samples.shape), samples)
    else:  # Pillow cuts colour to 8 bits, but must agree on those
        theirs = np.asarray(Image.open(path))
        assert np.array_equal(theirs, samples if channels == 1 else (samples >> 8).astype(np.uint8))


def _tifffile_without_codecs(tifffile, path):
    """Undo zlib and differences by hand from the tags tifffile parsed: it leaves both to another package."""
    with tifffile.TiffFile(path) as file:
        page, raw = file.pages[0], path.read_bytes()
        assert (page.compression, page.predictor) == (8, 2)
        rows = [
            np.frombuffer(zlib.decompress(raw[o : o + n]), "<u2").reshape(-1, page.imagewidth, page.samplesperpixel)
            for o, n in zip(page.dataoffsets, page.databytecounts, strict=True)
        ]
    return np.cumsum(np.concatenate(rows), axis=1, dtype=np.uint16)


def sixteen_bit_png(samples, colour_type, interlaced=False):
    def chunk(kind, payload):
        return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))

    rows, columns = samples.shape[:2]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    raw = b"".join(
        b"\0" + line.astype(">u2").tobytes() for r, c, dr, dc in passes for line in samples[r::dr, c::dc] if line.size
    )
    header = struct.pack(">IIBBBBB", columns, rows, 16, colour_type, 0, 0, int(interlaced))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(("channels", "colour_type"), [(1, 0), (2, 4), (3, 2), (4, 6)])
def test_sixteen_bit_png_of_another_writer(channels, colour_type, interlaced):
    samples = noise(21, 34, channels, np.uint16)
    photo = read_photo(sixteen_bit_png(samples, colour_type, interlaced))
    pixels, alpha = split(samples)
    assert np.array_equal(photo.pixels, pixels)
    assert alpha is None or np.array_equal(photo.alpha, alpha)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zlib"},
        {"compression": "zlib", "predictor": True},
        {"byteorder": ">"},
        {"byteorder": ">", "compression": "zlib"},
        {"tile": (16, 16)},
        {"rowsperstrip": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_sixteen_bit_tiff_of_another_writer(channels, options):
    import tifffile

    samples, out = noise(40, 31, channels, np.uint16), io.BytesIO()
    more = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    tifffile.imwrite(out, samples, photometric="minisblack" if channels == 1 else "rgb", **more, **options)
    photo = read_photo(out.getvalue())
    pixels, alpha = split(samples)
    assert np.array_equal(photo.pixels, pixels)
    assert alpha is None or np.array_equal(photo.alpha, alpha)


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [3, 4])
def test_a_tiff_of_separate_planes_is_read_to_the_last_bit_or_refused(compression, kind, channels):
    import tifffile

    samples, out = noise(40, 31, channels, kind), io.BytesIO()
    more = {"extrasamples": ["unassalpha"]} if channels == 4 else {}
    planes = np.moveaxis(samples, -1, 0)
    tifffile.imwrite(out, planes, photometric="rgb", planarconfig="separate", compression=compression, **more)
    if kind == np.uint16:
        with pytest.raises(PhotoError, match="separate planes"):
            read_photo(out.getvalue())
    else:
        assert np.array_equal(read_photo(out.getvalue()).pixels, split(samples)[0])


def test_sixteen_bit_tiff_with_white_as_zero():
    import tifffile

    samples, out = noise(20, 30, 1, np.uint16), io.BytesIO()
    tifffile.imwrite(out, samples, photometric="miniswhite")
    assert np.array_equal(read_photo(out.getvalue()).pixels, 65535 - samples)


def test_twelve_bit_tiff_reaches_from_black_to_white():
    levels = np.arange(4096, dtype=np.uint16)
    first, second = levels[::2].astype(np.uint8), levels[1::2]  # two of them lie in three bytes
    packed = np.stack([levels[::2] >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1).astype(np.uint8)
    tags = {256: 64, 257: 64, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 64, 279: packed.size}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    head = struct.pack("<2sHI", b"II", 42, 8 + packed.size)
    file = head + packed.tobytes() + struct.pack("<H", len(tags)) + entries + bytes(4)
    assert np.allclose(read_photo(file).pixels.ravel() / 65535, levels / 4095, rtol=0, atol=2 / 65535)


@pytest.mark.parametrize("suffix", [".jpg", ".avif", ".webp", ".bmp"])
def test_lossy_formats_stay_close(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    lossy = read_photo(saved(Image.fromarray(PHOTO), "WEBP", quality=80)) if suffix == ".webp" else Photo(PHOTO)
    write_photo(lossy, path)
    assert psnr(read_photo(path).pixels, lossy.pixels) > 34


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "BMP"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_pillow_agrees_with_what_is_read(format, mode):
    file = saved(Image.fromarray(PHOTO).convert(mode), format)
    assert np.array_equal(read_photo(file).pixels, np.asarray(Image.open(io.BytesIO(file))))


@pytest.mark.parametrize("rows", [700, 701])
def test_large_jpeg_is_pillows_own(rows):
    """Large photos go to Pillow in its own layout; the file is the same, byte by byte."""
    pixels = np.tile(PHOTO, (8, 8, 1))[:rows, :1001]
    assert pixels.shape[0] * pixels.shape[1] >= LARGE
    options = {"quality": 95, "subsampling": 0, "progressive": False}
    assert encode_photo(Photo(pixels), "JPEG")[0] == saved(Image.fromarray(pixels), "JPEG", **options)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_large_photo_is_read_as_pillow_reads_it(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = Image.fromarray(np.tile(PHOTO, (8, 8, 1))[:701, :1001])
    file = saved(picture, "PNG", exif=exif.tobytes(), compress_level=1)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    found = read_photo(file)
    assert np.array_equal(found.pixels, np.asarray(turned))
    assert np.array_equal(read_photo(encode_photo(found, "TIFF")[0]).pixels, found.pixels)


def test_scikit_image_reads_what_is_written(tmp_path):
    write_photo(Photo(PHOTO), tmp_path / "a.png")
    assert np.array_equal(skio.imread(tmp_path / "a.png"), PHOTO)


@pytest.mark.parametrize(
    ("mode", "format", "note"),
    [
        ("1", "PNG", "the 1-bit picture became 8-bit grey"),
        ("P", "PNG", "the palette became full colour"),
        ("CMYK", "JPEG", "CMYK was converted to RGB"),
        ("CMYK", "TIFF", "CMYK was converted to RGB"),
    ],
)
def test_modes_that_are_converted_say_so(mode, format, note):
    image = Image.fromarray(PHOTO).convert(mode)
    photo = read_photo(saved(image, format))
    assert photo.notes == (note,)
    expected = image.convert("L" if mode == "1" else "RGB")
    if format == "JPEG":
        assert psnr(photo.pixels, np.asarray(expected)) > 30
    else:
        assert np.array_equal(photo.pixels, np.asarray(expected))


def test_palette_with_transparency_keeps_it():
    image = Image.fromarray(PHOTO).quantize(16)
    photo = read_photo(saved(image, "PNG", transparency=3))
    assert np.array_equal(photo.alpha == 0, np.asarray(image) == 3)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_one_transparent_colour_becomes_alpha(mode):
    image = Image.fromarray(PHOTO).convert(mode)
    key = image.getpixel((5, 7))
    photo = read_photo(saved(image, "PNG", transparency=key))
    assert np.array_equal(photo.pixels, np.asarray(image))
    assert photo.alpha[7, 5] == 0
    assert photo.alpha.max() == 255


def packed_grey(levels, bits, key):
    """A PNG file of ``levels (rows, columns)`` of 1, 2 or 4 bits, of which those of the level ``key`` hide."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows, columns = levels.shape
    single = (levels[..., None] >> np.arange(bits)[::-1]) & 1
    lines = np.packbits(single.reshape(rows, -1).astype(np.uint8), axis=1)
    packed = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    head = struct.pack(">IIBBBBB", columns, rows, bits, 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"tRNS", struct.pack(">H", key)), (b"IDAT", packed), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_transparent_level_of_few_bits_hides_its_pixels(bits):
    levels = RNG.integers(0, 2**bits, (9, 13))
    for key in range(2**bits):
        photo = read_photo(packed_grey(levels, bits, key))
        assert np.array_equal(photo.alpha == 0, levels == key)
        assert np.array_equal(photo.pixels, levels * (255 // (2**bits - 1)))
        pil = Image.open(io.BytesIO(packed_grey(levels, bits, key)))
        assert np.array_equal(np.asarray(enhance(pil, strength=0))[..., 1], photo.alpha)


def test_first_of_several_pictures():
    frames = [Image.fromarray(PHOTO), Image.fromarray(PHOTO[::-1])]
    photo = read_photo(saved(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    assert np.array_equal(photo.pixels, PHOTO)
    assert photo.notes == ("only the first of the file's 2 pictures was taken",)


def test_jpeg_keeps_fine_tables_and_subsampling():
    from PIL import JpegImagePlugin

    file = saved(Image.fromarray(PHOTO), "JPEG", quality=93, subsampling="4:2:2", progressive=True)
    again, _ = encode_photo(read_photo(file), "JPEG")
    before, after = Image.open(io.BytesIO(file)), Image.open(io.BytesIO(again))
    assert after.quantization == before.quantization
    assert JpegImagePlugin.get_sampling(after) == JpegImagePlugin.get_sampling(before) == 1
    assert after.info["progressive"]


@pytest.mark.parametrize("subsampling", [None, 0, 2])
@pytest.mark.parametrize("finest", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rows", [200, 1000])
def test_a_progressive_jpeg_may_be_of_noise(rows, channels, finest, subsampling):
    """What the brightening shows of a dark photo, packed as finely as its file was."""
    tables = {n: [1] * 64 for n in range(2 if channels == 3 else 1)} if finest else None
    encoding = Encoding("JPEG", tables, subsampling if channels == 3 else None, progressive=True, lossless=False)
    pixels, before = noise(rows, 900, channels, np.uint8), ImageFile.MAXBLOCK
    data, _ = encode_photo(Photo(pixels, encoding=encoding), "JPEG")
    assert read_photo(data).encoding.progressive
    assert before == ImageFile.MAXBLOCK


def test_jpeg_with_coarse_tables_is_written_finer():
    file = saved(Image.fromarray(PHOTO), "JPEG", quality=40)
    again, _ = encode_photo(read_photo(file), "JPEG")
    before, after = Image.open(io.BytesIO(file)), Image.open(io.BytesIO(again))
    assert np.mean(after.quantization[0]) < np.mean(before.quantization[0])


@pytest.mark.parametrize("lossless", [True, False])
def test_webp_keeps_its_kind(lossless):
    file = saved(Image.fromarray(PHOTO), "WEBP", lossless=lossless, icc_profile=b"x" * 200)
    again, _ = encode_photo(read_photo(file), "WEBP")
    assert np.array_equal(read_photo(again).pixels, read_photo(file).pixels) == lossless


def test_tiff_is_packed_and_read_by_pillow():
    file = saved(Image.fromarray(PHOTO), "TIFF", compression="tiff_lzw")
    again, _ = encode_photo(read_photo(file), "TIFF")
    assert len(again) < PHOTO.size
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(again))), PHOTO)


def test_what_a_format_cannot_hold_is_said():
    alpha = np.full(PHOTO.shape[:2], 0, np.uint8)
    data_, notes = encode_photo(Photo(PHOTO, alpha), "JPEG")
    assert notes == ("JPEG holds no transparency: the picture was put on white",)
    assert read_photo(data_).pixels.min() > 250
    deep, notes = encode_photo(Photo(PHOTO.astype(np.uint16) * 257), "BMP")
    assert notes == ("BMP holds 8 bits a channel: the other 8 were rounded away",)
    assert np.array_equal(read_photo(deep).pixels, PHOTO)


def test_an_unknown_suffix_gets_the_format_the_photo_came_in(tmp_path):
    photo = read_photo(saved(Image.fromarray(PHOTO), "JPEG"))
    write_photo(photo, tmp_path / "a.dat")
    assert read_photo(tmp_path / "a.dat").encoding.format == "JPEG"


@pytest.mark.parametrize("suffix", ["", ".dat", ".tif", ".heic", ".nef", ".DNG"])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_the_content_decides_not_the_name(tmp_path, format, suffix):
    (tmp_path / f"a{suffix}").write_bytes(saved(Image.fromarray(PHOTO), format))
    assert read_photo(tmp_path / f"a{suffix}").encoding.format == format


def test_sides_beyond_a_format_are_named():
    from tecu.lowlight.files import UnwritableFile

    with pytest.raises(UnwritableFile, match="16,383 pixels a side"):
        encode_photo(Photo(np.zeros((1, 20_000), np.uint8)), "WEBP")
    with pytest.raises(ValueError, match="format must be one of"):
        encode_photo(Photo(PHOTO), "GIF")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((np.zeros((3, 3)),), TypeError),
        ((np.zeros((3, 3, 4), np.uint8),), ValueError),
        ((np.zeros((0, 3), np.uint8),), ValueError),
        ((np.zeros((3, 3), np.uint8), np.zeros((3, 2), np.uint8)), ValueError),
        ((np.zeros((3, 3), np.uint8), np.zeros((3, 3), np.uint16)), ValueError),
    ],
)
def test_photo_refuses_what_it_cannot_be(arguments, error):
    with pytest.raises(error, match="expected"):
        Photo(*arguments)


@pytest.mark.parametrize("tags", [{50706: b"\1\4\0\0"}, {254: 1, 330: 8}, {254: 1, 330: (8, 8)}])
def test_a_raw_file_is_known_by_its_content(tags):
    # Its first picture is a thumbnail, which must not be taken for the photo.
    info, thumbnail = TiffImagePlugin.ImageFileDirectory_v2(), io.BytesIO()
    for tag, value in tags.items():
        info[tag] = value
    Image.new("RGB", (16, 12)).save(thumbnail, "TIFF", tiffinfo=info)
    with pytest.raises(PhotoError, match=r"RAW|decoded"):
        read_photo(thumbnail.getvalue())


def test_pixels_that_begin_like_a_raw_file_of_canon_are_pixels():
    samples, out = noise(20, 30, 1, np.uint8), io.BytesIO()
    samples[0, :4] = list(b"CR\2\0")
    tags = {256: 30, 257: 20, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 20, 279: samples.size}
    out.write(struct.pack("<2sHI", b"II", 42, 8 + samples.size) + samples.tobytes() + struct.pack("<H", len(tags)))
    out.write(b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items()) + bytes(4))
    assert np.array_equal(read_photo(out.getvalue()).pixels, samples)


def test_a_raw_file_of_canon_is_known_by_its_content():
    tags = {256: 4, 257: 4, 258: 8, 259: 1, 262: 1, 273: 200, 277: 1, 278: 4, 279: 16}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    for mark in (b"CR\2\0", bytes(4)):
        head = struct.pack("<2sHI", b"II", 42, 16) + mark + bytes(4)
        file = (head + struct.pack("<H", len(tags)) + entries).ljust(200, b"\0") + bytes(16)
        if any(mark):
            with pytest.raises(PhotoError, match=r"RAW|decoded"):
                read_photo(file)
        else:
            assert read_photo(file).size == (4, 4)
