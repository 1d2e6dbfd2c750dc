"""What holds for all methods: kinds of pictures, and the laws that follow from one gain for all channels."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from dark_photos import clean, dark

from tecu.lowlight import Enhancer
from tecu.lowlight.classical import METHODS, get

CHANGE_COLOURS = ("msrcr", "hdrnet")  # by its colour restoration; by what it learnt
ONE_GAIN = [name for name in METHODS if name not in CHANGE_COLOURS]


@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    def test_the_result_is_a_picture_of_the_same_kind(self, name):
        for picture in (dark(), dark()[..., 1], dark().astype(np.float64)):
            before = picture.copy()
            result = get(name)(picture)
            assert result.shape == picture.shape
            assert result.dtype == picture.dtype
            assert 0.0 <= result.min() <= result.max() <= 1.0
            assert np.array_equal(picture, before)

    @pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (1, 9), (9, 1, 3), (2, 2, 3), (16, 23)])
    def test_small_pictures(self, name, shape):
        picture = np.random.default_rng(0).uniform(0.0, 0.3, shape)
        result = get(name)(picture)
        assert result.shape == shape
        assert np.all(np.isfinite(result))

    @pytest.mark.parametrize("channels", [(), (3,)])
    def test_black_stays_black_and_white_stays_white(self, name, channels):
        assert not get(name)(np.zeros((12, 17, *channels))).any()
        white = 0.97 if name == "hdrnet" else 0.999  # learnt, not built in
        assert np.all(get(name)(np.ones((12, 17, *channels))) > white)

    def test_the_enhancer_takes_8_and_16_bits_grey_and_colour(self, name):
        enhancer = Enhancer(name)
        small = dark()[::4, ::4]
        expected = get(name)(np.rint(small * 65535).astype(np.float32) / np.float32(65535))
        for dtype, white in ((np.uint8, 255), (np.uint16, 65535)):
            picture = np.rint(small * white).astype(dtype)
            result = enhancer(picture)
            assert result.dtype == dtype
            assert result.shape == picture.shape
            assert enhancer(picture[..., 0]).shape == picture.shape[:2]
        assert np.abs(result / 65535.0 - expected).max() < 1e-3

    def test_three_equal_channels_are_a_grey_picture(self, name):
        grey = dark()[..., 1]
        colour = get(name)(np.repeat(grey[..., None], 3, axis=2))
        # A network has no notion of grey: there the mean of the channels is meant.
        colour = colour.mean(axis=2, keepdims=True) if name == "hdrnet" else colour
        assert np.allclose(colour, get(name)(grey)[..., None], atol=2e-3)

    def test_a_wrong_picture_is_refused_in_a_sentence(self, name):
        with pytest.raises(TypeError, match=f"{name}: image must be floats"):
            get(name)(np.zeros((4, 4), np.uint8))
        with pytest.raises(ValueError, match="height x width"):
            get(name)(np.zeros((4, 4, 2)))
        with pytest.raises(ValueError, match="NaN"):
            get(name)(np.full((4, 4), np.nan))


@pytest.mark.parametrize("name", ONE_GAIN)
def test_hue_stays_where_nothing_is_clipped(name):
    result = get(name)(dark())
    inside = (result.max(axis=2) < 0.999) & (dark().min(axis=2) > 0.01)
    before = dark()[inside] / dark()[inside].sum(axis=1, keepdims=True)
    after = result[inside] / result[inside].sum(axis=1, keepdims=True)
    assert np.abs(before - after).max() < 1e-4


@pytest.mark.parametrize("name", [name for name in METHODS if name != "bpdhe"])
def test_a_dark_photo_comes_nearer_to_the_clean_one(name):
    def error(picture):
        return float(np.mean((picture - clean()) ** 2))

    assert error(get(name)(dark())) < 0.8 * error(dark())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(:", "could not be imported: SyntaxError: "),
        ("1 / 0", "could not be imported: ZeroDivisionError: division by zero"),
        ("raise RuntimeError", "could not be imported: RuntimeError$"),
        ("import sys; sys.exit(7)", "it ends the program, with the code 7"),
        ("import nonesuch", "No module named 'nonesuch'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason(tmp_path, monkeypatch, text, reason):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unfinished.py").write_text(text)
    with pytest.raises(ValueError, match=rf"method 'unfinished:f': .*{reason}"):
        get("unfinished:f")
    assert "unfinished" not in sys.modules


def test_a_function_of_ones_own():
    assert get("numpy:sqrt") is np.sqrt
    for name in ("unknown", "numpy:", ":sqrt"):
        with pytest.raises(ValueError, match="is not known; there are he, bpdhe"):
            get(name)
    with pytest.raises(ValueError, match="nonesuch"):
        get("nonesuch_module:f")
    with pytest.raises(ValueError, match="nonesuch"):
        get("numpy:nonesuch")
    with pytest.raises(ValueError, match=r"method 'numpy:pi' must name a function that .*; it is a float"):
        get("numpy:pi")
