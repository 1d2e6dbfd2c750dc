"""Pixels decoded into an array: the same ones as by Pillow, in memory that outlives the picture."""

from __future__ import annotations

import gc
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image, ImageFile

from tecu.lowlight.files import PhotoError, read_photo, zero_copy


@pytest.fixture(scope="module")
def jpeg():
    rows, columns = 2048, 2608  # more than one of Pillow's blocks of 16 MB
    picture = np.random.default_rng(0).integers(0, 60, (rows // 16, columns // 16, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(picture).resize((columns, rows)).save(out, "JPEG")
    return out.getvalue()


def decoded(jpeg):
    return np.asarray(Image.open(io.BytesIO(jpeg)))


def test_a_large_photo_is_read_as_pillow_reads_it(jpeg):
    pixels = read_photo(jpeg).pixels
    gc.collect()  # the picture is gone, its memory is not
    np.testing.assert_array_equal(pixels, decoded(jpeg))
    assert pixels.strides[1] == 4


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "AVIF"])
def test_every_format_is_read_as_pillow_reads_it(format):
    picture = Image.fromarray(np.random.default_rng(1).integers(0, 256, (840, 850, 3), dtype=np.uint8))
    for options in ({}, {"progressive": True, "quality": 60}) if format == "JPEG" else ({},):
        out = io.BytesIO()
        picture.save(out, format, **options)
        np.testing.assert_array_equal(read_photo(out.getvalue()).pixels, decoded(out.getvalue()))


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("MPO", {"save_all": True, "append_images": [Image.new("RGB", (850, 840), 3)]}),
        ("PNG", {"transparency": (9, 8, 7)}),
        ("PNG", {"save_all": True, "append_images": [Image.new("RGB", (850, 840), 3)]}),
        ("WEBP", {"save_all": True, "append_images": [Image.new("RGB", (850, 840), 3)], "lossless": True}),
    ],
)
def test_odd_files_are_read_as_pillow_reads_them(format, options):
    picture = Image.fromarray(np.random.default_rng(1).integers(0, 256, (840, 850, 3), dtype=np.uint8))
    out = io.BytesIO()
    picture.save(out, format, **options)
    truth = np.asarray(Image.open(io.BytesIO(out.getvalue())).convert("RGB"))
    np.testing.assert_array_equal(read_photo(out.getvalue()).pixels, truth)


def test_a_picture_that_is_loaded_is_left_alone(jpeg):
    image = Image.open(io.BytesIO(jpeg))
    image.load()
    assert zero_copy.decoded(image) is None
    np.testing.assert_array_equal(np.asarray(image), decoded(jpeg))


def test_a_photo_for_which_pillow_takes_memory_of_its_own_is_copied(jpeg, monkeypatch):
    load = ImageFile.ImageFile.load

    def turned(self):
        load(self)
        self.im = self.im.copy()
        return load(self)

    with monkeypatch.context() as patch:
        patch.setattr(ImageFile.ImageFile, "load", turned)
        assert zero_copy.decoded(Image.open(io.BytesIO(jpeg))) is None
        pixels = read_photo(jpeg).pixels
    np.testing.assert_array_equal(pixels, decoded(jpeg))


def test_what_a_truncated_file_lacks_is_black(monkeypatch):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(2).integers(1, 256, (840, 850, 3), dtype=np.uint8)).save(out, "PNG")
    half = out.getvalue()[: len(out.getvalue()) // 2]
    with pytest.raises(PhotoError, match="truncated"):
        read_photo(half)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    whole = zero_copy.decoded(Image.open(io.BytesIO(half)))
    assert whole[0].all()
    assert not whole[-1].any()


def test_many_threads_read_the_same(jpeg):
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: read_photo(jpeg).pixels, range(8))
    assert all(np.array_equal(first, other) for other in others)


def test_the_memory_is_given_back(jpeg):
    import psutil

    def used():
        gc.collect()
        return psutil.Process().memory_info().rss

    read_photo(jpeg)
    before = used()
    for _ in range(12):
        read_photo(jpeg)
    assert used() - before < 3 * decoded(jpeg).nbytes
