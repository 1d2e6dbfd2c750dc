import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from tecu.metrics import loe, psnr, ssim
from tecu.metrics.psnr import psnr_gt_mean

RNG = np.random.default_rng(0)
COLOUR = data.astronaut()[60:200, 130:300]
GREY = data.camera()[100:230, 100:260]


def distorted(image):
    noisy = 1.1 * image + RNG.normal(0, 12, image.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def as_kind(image, kind):
    return {
        "uint8": lambda: image,
        "uint16": lambda: image.astype(np.uint16) * 257,
        "float32": lambda: (image / 255).astype(np.float32),
        "float64": lambda: image / 255,
    }[kind]()


@pytest.mark.parametrize("image", [COLOUR, GREY], ids=["colour", "grey"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {}),
        ({"size": 11}, {"win_size": 11}),
        ({"sample_covariance": False}, {"use_sample_covariance": False}),
        ({"window": "gaussian"}, {"gaussian_weights": True}),
        (
            {"window": "gaussian", "sample_covariance": False},
            {"gaussian_weights": True, "use_sample_covariance": False},
        ),
    ],
)
def test_ssim_equals_scikit_image(image, kind, ours, theirs):
    other = as_kind(distorted(image), kind)
    image = as_kind(image, kind)
    peak = 1.0 if kind.startswith("float") else np.iinfo(kind).max
    axis = -1 if image.ndim == 3 else None
    # in float64, as theirs loses digits when it keeps float32
    expected = structural_similarity(
        image.astype(float), other.astype(float), data_range=peak, channel_axis=axis, **theirs
    )
    assert ssim(image, other, **ours) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("image", [COLOUR, GREY], ids=["colour", "grey"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "float64"])
def test_psnr_equals_scikit_image(image, kind):
    first, second = as_kind(image, kind), as_kind(distorted(image), kind)
    peak = 1.0 if kind.startswith("float") else np.iinfo(kind).max
    assert psnr(first, second) == pytest.approx(peak_signal_noise_ratio(first, second, data_range=peak), abs=1e-4)


def test_equal_images_are_perfect():
    assert psnr(COLOUR, COLOUR) == float("inf")
    assert ssim(COLOUR, COLOUR) == pytest.approx(1.0, abs=1e-12)
    assert loe(COLOUR, COLOUR) == 0.0


def test_inputs_are_left_alone():
    first, second = COLOUR.copy(), distorted(COLOUR)
    kept = second.copy()
    psnr(first, second), ssim(first, second), loe(first, second), psnr_gt_mean(first, second)
    assert np.array_equal(first, COLOUR)
    assert np.array_equal(second, kept)


def test_gt_mean_does_not_see_the_exposure_and_plain_psnr_does():
    reference = GREY / 255
    dark = reference * 0.25
    assert psnr(dark, reference) < 15
    assert psnr_gt_mean(dark, reference) > 100


@given(seed=st.integers(0, 10_000), levels=st.integers(2, 256))
def test_loe_is_the_count_of_pairs_whose_order_differs(seed, levels):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, levels, (2, 6, 5)).astype(np.uint8)
    count = sum((a.flat[x] >= a.flat[y]) != (b.flat[x] >= b.flat[y]) for x in range(a.size) for y in range(a.size))
    assert loe(a, b) == count / a.size


def test_loe_ignores_a_rising_curve_and_sees_a_falling_one():
    image = data.camera()[:40, :40]
    curve = np.linspace(0, 255, 256) ** 0.5
    rising = (curve / curve.max())[image]
    table = np.argsort(np.argsort(np.unique(rising)))  # levels kept apart after rounding to 256
    apart = table[np.searchsorted(np.unique(rising), rising)].astype(np.uint8)
    assert loe(apart, image) == 0.0
    assert loe(255 - image, image) > 0.8 * image.size


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_loe_has_no_figure_for_values_that_are_not_finite(value):
    whole = np.linspace(0, 1, 3600).reshape(60, 60)
    broken = whole.copy()
    broken[7, 9] = value
    with pytest.raises(ValueError, match="image holds values that are not finite"):
        loe(broken, whole)
    with pytest.raises(ValueError, match="reference holds values that are not finite"):
        loe(whole, broken)


def test_loe_of_a_panorama_is_bounded_in_work():
    strip = np.tile(GREY[:60], (1, 60))
    assert loe(strip, strip) == 0.0


@pytest.mark.parametrize("metric", [psnr, ssim, loe])
def test_images_that_cannot_be_compared_are_named(metric):
    with pytest.raises(ValueError, match="differ in"):
        metric(COLOUR, COLOUR[:-1])
    with pytest.raises(TypeError, match="uint8, uint16 or floats"):
        metric(COLOUR.astype(np.int64), COLOUR.astype(np.int64))
    with pytest.raises(ValueError, match="rows, columns"):
        metric(np.zeros(5), np.zeros(5))


def test_mixed_kinds_and_bad_windows_are_refused():
    with pytest.raises(TypeError, match="kind"):
        psnr(COLOUR, COLOUR / 255)
    with pytest.raises(ValueError, match="window must be"):
        ssim(GREY, GREY, window="round")
    with pytest.raises(ValueError, match="odd"):
        ssim(GREY, GREY, size=4)
    with pytest.raises(ValueError, match="window is 7 pixels wide"):
        ssim(GREY[:5], GREY[:5])
    with pytest.raises(ValueError, match="fixed size"):
        ssim(GREY, GREY, window="gaussian", size=9)
