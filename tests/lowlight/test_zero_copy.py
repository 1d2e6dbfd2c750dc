"""Pixels lent by Pillow: the same ones as a copy, in memory that outlives the picture, and no trace left behind."""

from __future__ import annotations

import gc
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tecu.lowlight.files import read, read_photo, zero_copy


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


def test_a_photo_in_pieces_is_copied(jpeg, monkeypatch):
    monkeypatch.setattr(read, "lent", lambda image: None)
    np.testing.assert_array_equal(read_photo(jpeg).pixels, decoded(jpeg))


def test_a_picture_in_pieces_is_not_lent():
    assert zero_copy.lent(Image.new("RGB", (4000, 3000))) is None
    with zero_copy.in_one_piece():
        assert zero_copy.lent(Image.new("RGB", (4000, 3000))).shape == (3000, 4000, 4)


def test_padded_rows_are_not_lent():
    kept = Image.core.get_alignment()
    Image.core.set_alignment(16)
    try:
        assert zero_copy.lent(Image.new("RGB", (5, 3))) is None
    finally:
        Image.core.set_alignment(kept)


def test_a_picture_too_large_for_one_piece_is_known():
    class Picture:
        size = (32768, 16384)

    assert not zero_copy.fits_one_piece(Picture)
    with pytest.raises(MemoryError), zero_copy.in_one_piece():
        Image.core.new("RGB", Picture.size)


def test_pillows_switch_is_put_back_however_many_use_it(jpeg):
    before = Image.core.get_use_block_allocator()
    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(lambda _: read_photo(jpeg).pixels, range(8))
    assert all(np.array_equal(first, other) for other in others)
    with pytest.raises(ZeroDivisionError), zero_copy.in_one_piece():
        raise ZeroDivisionError
    assert Image.core.get_use_block_allocator() == before


def test_what_is_lent_is_given_back(jpeg):
    import psutil

    def used():
        gc.collect()
        return psutil.Process().memory_info().rss

    read_photo(jpeg)
    before = used()
    for _ in range(12):
        read_photo(jpeg)
    assert used() - before < 3 * decoded(jpeg).nbytes
