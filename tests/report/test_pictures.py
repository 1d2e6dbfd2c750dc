"""Pictures under a divider and atoms on a grid."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image, ImageCms

from tecu import report
from tecu.report.images import mosaic

RNG = np.random.default_rng(0)


def images(section):
    data = re.findall(r'src="data:image/\w+;base64,([^"]+)"', section.body)
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in data]


@pytest.mark.parametrize(
    "picture",
    [
        RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8),
        RNG.integers(0, 256, (5, 7), dtype=np.uint8),
        RNG.integers(0, 256, (5, 7, 4), dtype=np.uint8),
        RNG.integers(0, 256, (5, 7, 1), dtype=np.uint8),
    ],
    ids=["rgb", "grey", "rgba", "one-channel"],
)
def test_small_pictures_arrive_unchanged(picture):
    for found in images(report.pictures(picture, picture)):
        assert np.array_equal(np.asarray(found), picture.squeeze())


def test_sixteen_bits_and_floats_become_eight():
    eight = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    first, second = images(report.pictures(eight.astype(np.uint16) * 257, eight / 255))
    assert np.array_equal(np.asarray(first), eight)
    assert np.array_equal(np.asarray(second), eight)


def test_pil_images_of_any_mode():
    for mode in ("L", "RGB", "RGBA", "CMYK", "P", "1", "I;16"):
        assert images(report.pictures(Image.new(mode, (4, 3)), Image.new(mode, (4, 3))))[0].size == (4, 3)


@pytest.mark.parametrize("kind", ["<u2", ">u2", "<f4"])
def test_pil_images_of_more_than_eight_bits_keep_their_tones(kind):
    eight = RNG.integers(0, 256, (5, 7), dtype=np.uint8)
    deep = (eight / 255 if kind == "<f4" else eight * np.uint16(257)).astype(kind)
    for found in images(report.pictures(Image.fromarray(deep), deep)):
        assert np.array_equal(np.asarray(found), eight)


def test_large_pictures_are_shrunk():
    large = np.zeros((30, 900, 3), np.uint8)
    assert images(report.pictures(large, large, longest=300))[0].size == (300, 10)


PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("side", [9, 300], ids=["png", "jpeg"])
@pytest.mark.parametrize("channels", [3, 4])
def test_pictures_come_with_their_profiles(side, channels):
    pixels = np.zeros((side, side, channels), np.uint8)
    image = Image.fromarray(pixels)
    image.info["icc_profile"] = PROFILE[:-1] + b"x"
    first, second = images(report.pictures(pixels, image, profiles=(PROFILE, None), longest=280))
    assert first.info["icc_profile"] == PROFILE
    assert second.info["icc_profile"] == PROFILE[:-1] + b"x"
    assert all("icc_profile" not in found.info for found in images(report.pictures(pixels, pixels)))


@pytest.mark.parametrize("mode", ["CMYK", "L", "I;16"])
@pytest.mark.parametrize("side", [9, 300], ids=["png", "jpeg"])
def test_a_profile_of_other_colours_than_the_picture_shown_is_left_out(mode, side):
    space, fitting = {"CMYK": (b"CMYK", None), "L": (b"RGB ", b"GRAY"), "I;16": (b"RGB ", b"GRAY")}[mode]
    image = Image.new(mode, (side, side))
    image.info["icc_profile"] = PROFILE[:16] + space + PROFILE[20:]
    assert all("icc_profile" not in found.info for found in images(report.pictures(image, image)))
    if fitting:
        image.info["icc_profile"] = PROFILE[:16] + fitting + PROFILE[20:]
        assert all("icc_profile" in found.info for found in images(report.pictures(image, image)))


def test_a_slider_that_a_screen_reader_can_name():
    section = report.pictures(np.zeros((2, 2)), np.ones((2, 2)), names=("night", "day"))
    assert re.search(r'<input type="range"[^>]*aria-label="[^"]*night[^"]*day', section.body)
    assert re.findall('alt="([^"]*)"', section.body) == ["night", "day"]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), "same size"),
        (np.zeros((2, 3, 5)), np.zeros((2, 3, 5)), "before: a picture is"),
        (np.zeros((2, 3)), np.zeros((2, 3), int), "after: pixels must be uint8"),
        (np.zeros((0, 3)), np.zeros((0, 3)), "before: a picture is"),
    ],
)
def test_what_is_no_picture_is_refused(before, after, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        report.pictures(before, after)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3), (1, 12), None], ids=str)
def test_every_atom_is_on_the_grid_stretched_and_in_order(shape):
    D = RNG.normal(size=(10, 12))
    grid = mosaic(D, shape)
    height, width = (2, 2) if shape is None else shape[:2]
    found = []
    for top in range(1, grid.shape[0], height + 1):
        for left in range(1, grid.shape[1], width + 1):
            tile = grid[top : top + height, left : left + width].astype(float)
            if not (tile == 255).all():
                found.append(tile.ravel())
    expected = 127.5 + 127.5 * D / np.abs(D).max(axis=1, keepdims=True)
    assert np.allclose(found, expected, atol=0.51)


def test_the_most_used_atom_comes_first():
    D = np.diag([1.0, -1.0, 1.0, 1.0])
    grid = mosaic(D, (2, 2), usage=[0, 9, 1, 1])
    assert grid[1, 2] == 0  # the second atom's only entry is negative
    assert "never used: 1" in report.atoms(D, (2, 2), usage=[0, 9, 1, 1]).body


def test_a_dead_atom_is_grey():
    assert set(np.unique(mosaic(np.zeros((1, 4)), (2, 2)))) == {128, 255}


@pytest.mark.parametrize(
    ("components", "shape", "usage", "sentence"),
    [
        (np.zeros(4), (2, 2), None, "n_components x n_features"),
        (np.zeros((2, 4)), (2, 3), None, "product of 4"),
        (np.zeros((2, 8)), (2, 2, 2), None, r"\(h, w, 3\)"),
        (np.zeros((2, 4)), (2, 2), [1], "one number an atom"),
    ],
)
def test_what_is_no_dictionary_is_refused(components, shape, usage, sentence):
    with pytest.raises(ValueError, match=sentence):
        report.atoms(components, shape, usage=usage)
