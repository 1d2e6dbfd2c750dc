import numpy as np
import pytest
from PIL import Image
from scipy import ndimage, stats
from scipy.special import gamma
from skimage import data

from tecu.metrics import niqe
from tecu.metrics.niqe import FLAT, _fit, _half, _parameters

ASTRONAUT = data.astronaut()
RNG = np.random.default_rng(1)


def noisy(image, sigma):
    return np.clip(image + RNG.normal(0, sigma, image.shape), 0, 255).astype(np.uint8)


# ---- a slow twin that follows the paper block by block
# -------------------------------------------------------


def twin_fit(values):
    shapes = np.arange(0.2, 10.001, 0.001)
    table = gamma(2 / shapes) ** 2 / (gamma(1 / shapes) * gamma(3 / shapes))
    left = np.sqrt(np.mean(values[values < 0] ** 2))
    right = np.sqrt(np.mean(values[values > 0] ** 2))
    ratio = left / right
    moment = np.mean(np.abs(values)) ** 2 / np.mean(values**2)
    moment = moment * (ratio**3 + 1) * (ratio + 1) / (ratio**2 + 1) ** 2
    shape = shapes[np.argmin((table - moment) ** 2)]
    scale = np.sqrt(gamma(1 / shape) / gamma(3 / shape))
    return shape, left * scale, right * scale


def twin_features(block):
    shape, left, right = twin_fit(block)
    features = [shape, (left + right) / 2]
    for down, across in [(0, 1), (1, 0), (1, 1), (1, -1)]:
        shape, left, right = twin_fit(block * np.roll(block, (down, across), axis=(0, 1)))
        features += [shape, (right - left) * gamma(2 / shape) / gamma(1 / shape), left, right]
    return features


def twin(image):
    grey = np.rint(image @ np.array([0.298936021293775, 0.587043074451121, 0.114020904255103]))
    rows, columns = grey.shape[0] // 96, grey.shape[1] // 96
    grey, scales = grey[: rows * 96, : columns * 96], []
    square = np.exp(-(np.add.outer(np.arange(-3, 4) ** 2, np.arange(-3, 4) ** 2)) / (2 * (7 / 6) ** 2))
    square /= square.sum()
    for block in (96, 48):
        mean = ndimage.convolve(grey, square, mode="nearest")
        deviation = np.sqrt(np.abs(ndimage.convolve(grey * grey, square, mode="nearest") - mean**2))
        apart = np.where(np.abs(grey - mean) < FLAT, 0, grey - mean) / (deviation + 1)
        scales.append(
            [
                twin_features(apart[i * block : (i + 1) * block, j * block : (j + 1) * block])
                for i in range(rows)
                for j in range(columns)
            ]
        )
        grey = _half(grey)
    features = np.hstack(scales)
    mean0, covariance0 = _parameters()
    apart = mean0 - features.mean(axis=0)
    pooled = (covariance0 + np.cov(features, rowvar=False)) / 2
    return np.sqrt(apart @ np.linalg.solve(pooled, apart))


@pytest.mark.parametrize("image", [ASTRONAUT[:300, :400], data.coffee(), data.chelsea()], ids=["a", "c", "k"])
def test_agrees_with_a_slow_twin(image):
    assert niqe(image) == pytest.approx(twin(image), abs=1e-8)


# ---- laws
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("image", [ASTRONAUT, data.chelsea(), data.coffee()], ids=["a", "k", "c"])
def test_noise_and_blur_make_it_worse(image):
    clean = niqe(image)
    assert clean < niqe(noisy(image, 15)) < niqe(noisy(image, 60))
    assert clean < niqe(ndimage.gaussian_filter(image, (3, 3, 0)))


def test_kinds_of_numbers_agree():
    score = niqe(ASTRONAUT)
    assert niqe(ASTRONAUT.astype(np.uint16) * 257) == pytest.approx(score, rel=1e-9)
    assert niqe(ASTRONAUT / 255) == pytest.approx(score, rel=1e-9)
    assert niqe(data.camera()) == niqe(data.camera()[..., None])


def test_grey_equals_colour_with_equal_channels():
    grey = data.camera()
    assert niqe(np.repeat(grey[..., None], 3, axis=2)) == pytest.approx(niqe(grey), rel=1e-9)


def test_only_whole_blocks_count():
    assert niqe(ASTRONAUT[:300, :400]) == niqe(ASTRONAUT[:288, :384])


@pytest.mark.parametrize("offset", [1, 37, 55])
def test_a_constant_added_changes_nothing_even_where_the_picture_is_flat(offset):
    """``x - mean(x)`` does not see it. In flat regions that is rounding, whose sign must not count."""
    picture = data.camera() * (200 / 255)
    picture[picture > 130] = 200
    picture[:200] = np.where(picture[:200] < 60, 40, picture[:200])
    picture = np.rint(picture).astype(np.uint8)
    assert niqe(picture + np.uint8(offset)) == pytest.approx(niqe(picture), rel=1e-9)


def test_half_size_equals_pillow_away_from_the_edge():
    grey = data.camera().astype(np.float64)
    pillow = Image.fromarray(grey.astype(np.float32)).resize((256, 256), Image.Resampling.BICUBIC)
    assert np.allclose(_half(grey)[4:-4, 4:-4], np.asarray(pillow)[4:-4, 4:-4], atol=1e-3)


@pytest.mark.parametrize("shape", [0.7, 1.0, 2.0, 4.0])
def test_fit_finds_the_shape_of_a_generalised_gaussian(shape):
    sample = stats.gennorm.rvs(shape, scale=1.5, size=(1, 400, 400), random_state=RNG)
    found, left, right = _fit(sample)
    assert found[0] == pytest.approx(shape, rel=0.05)
    assert left[0] == pytest.approx(1.5, rel=0.05)
    assert right[0] == pytest.approx(1.5, rel=0.05)


def test_parameters_are_a_mean_and_a_covariance():
    mean, covariance = _parameters()
    assert mean.shape == (36,)
    assert np.array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_pictures_without_texture_have_no_score():
    assert np.isnan(niqe(np.full((200, 200), 90, np.uint8)))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((100, 150), np.uint8), "two blocks"),
        (np.zeros((200, 200, 4), np.uint8), "4 channels"),
        (np.full((200, 200), np.nan), "finite"),
    ],
)
def test_what_cannot_be_scored_is_named(image, message):
    with pytest.raises(ValueError, match=message):
        niqe(image)
