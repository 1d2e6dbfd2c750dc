"""The way to the grid and back, curves, noise, black; the kernels have tests of their own (test_kernels.py)."""

import io

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import gaussian_filter

from lowlight.scenes import dark_scene, scene
from tecu.lowlight import Enhancer, denoise, grid
from tecu.lowlight.exposure import black_cast, illumination_at, near_black, without_cast
from tecu.lowlight.features import percentiles
from tecu.lowlight.render import render
from tecu.lowlight.tone import Tone, curve_through, highlights_of, power_for, with_toe


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("shape", [(500, 300), (192, 100), (30, 40), (1, 1000), (1000, 1)])
def test_grid_keeps_the_mean(dtype, shape):
    white = grid.whitepoint(dtype)
    picture = gaussian_filter(np.random.default_rng(0).random((*shape, 3)), (9, 9, 0))
    pixels = (picture * white).astype(dtype)
    small = grid.shrink(pixels)
    assert max(small.shape[:2]) == min(max(shape), grid.LONGEST_SIDE)
    assert small.dtype == np.float32
    assert np.abs(small.mean(axis=(0, 1)) - picture.mean(axis=(0, 1))).max() < 0.01


@pytest.mark.parametrize("shape", [(500, 301), (113, 112), (901, 333), (1, 1000), (647, 5), (1003, 1200)])
def test_the_grid_hardly_depends_on_the_precision(shape):
    """Pixels on the border of two cells may count to either, and of 8 bits whole cells are averaged first."""
    picture = gaussian_filter(np.random.default_rng(1).random((*shape, 3)), (3, 3, 0))
    picture = (picture - picture.min()) / np.ptp(picture)
    pixels = np.round(255 * picture).astype(np.uint8)
    narrow = grid.shrink(pixels)
    for wide in (pixels.astype(np.uint16) * 257, pixels / np.float32(255), pixels / 255):
        assert np.sqrt(np.mean((grid.shrink(wide) - narrow) ** 2)) < 0.015


@pytest.mark.parametrize("shape", [(1000, 1501), (2399, 999), (113, 7)])
@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
def test_the_grid_reaches_all_borders(shape, dtype):
    """Of a ramp each cell has the value at its centre, to half a pixel."""
    ramp = np.add.outer(np.arange(0.5, shape[0]) / shape[0], np.arange(0.5, shape[1]) / shape[1]) / 2
    small = grid.shrink((np.repeat(ramp[..., None], 3, axis=2) * grid.whitepoint(dtype)).astype(dtype))
    rows, columns = small.shape[:2]
    centres = np.add.outer(np.arange(0.5, rows) / rows, np.arange(0.5, columns) / columns) / 2
    assert np.abs(small - centres[..., None]).max() < 0.26 * (1 / shape[0] + 1 / shape[1])


def test_enlarging_is_linear_interpolation():
    plane = np.add.outer(np.arange(5.0), 2 * np.arange(7.0)).astype(np.float32)
    large = grid.enlarge(plane, (50, 70))
    inside = large[5:-5, 5:-5]
    assert np.allclose(np.diff(inside, axis=0), 0.1, atol=1e-4)
    assert np.allclose(np.diff(inside, axis=1), 0.2, atol=1e-4)
    assert np.array_equal(grid.enlarge(plane, (50, 70), slice(10, 20)), large[10:20])


def test_light_follows_edges_on_the_way_back():
    """At a step of the picture the enlarged light has a step too, where interpolation alone would make a ramp."""
    wide = np.full((200, 400), 0.1, dtype=np.float32)
    wide[:, 200:] = 0.8
    small = grid.shrink(np.repeat(wide[..., None], 3, axis=2), 40).max(axis=-1)
    slope, offset = grid.following(np.sqrt(small), small)
    light = illumination_at(wide, grid.enlarge(slope, wide.shape), grid.enlarge(offset, wide.shape))
    ramp = grid.enlarge(np.sqrt(small), wide.shape)
    assert light[100, 201] - light[100, 198] > 2 * (ramp[100, 201] - ramp[100, 198])


def test_curve_is_monotone_and_meets_its_knots():
    rng = np.random.default_rng(0)
    for _ in range(20):
        knots = np.concatenate([[0.0], np.cumsum(rng.dirichlet(np.full(10, 0.3)))])
        curve = curve_through(knots)
        assert np.all(np.diff(curve) >= 0)
        assert np.allclose(np.interp(np.linspace(0, 1, 11), np.linspace(0, 1, len(curve)), curve), knots, atol=1e-3)
        for strength in (0.5, 2.0):
            assert np.all(np.diff(Tone(0.5, curve).with_strength(strength).curve) >= 0)


def test_the_toe_rises_and_keeps_both_ends():
    x = np.linspace(0.0, 1.0, 200)
    for black in (0.0, 0.02, 0.2):
        bent = with_toe(x, black)
        assert np.all(np.diff(bent) > 0)
        assert np.all(bent <= x + 1e-12)
        assert (bent[0], bent[-1]) == (0.0, 1.0)


def test_power_reaches_the_target():
    picture = scene(80, 80)
    for target in (0.3, 0.45, 0.6):
        assert abs((picture ** power_for(picture, target) @ [0.299, 0.587, 0.114]).mean() - target) < 0.01


def test_power_out_of_reach_is_the_nearest():
    picture = scene(40, 40)
    assert power_for(picture, 0.999) == pytest.approx(1 / 6)
    assert power_for(picture, 1e-4) == pytest.approx(6.0)
    assert power_for(np.zeros((4, 4, 3), np.float32), 0.4) == pytest.approx(1 / 6)


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_percentiles_are_those_of_numpy(count):
    values = np.random.default_rng(0).random(count)
    wanted = [0.0, 1.0, 33.3, 50.0, 99.0, 100.0]
    assert np.allclose(percentiles(values, wanted), np.percentile(values, wanted))


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_is_measured(channels):
    rng = np.random.default_rng(0)
    flat = np.full((120, 160, channels), 0.3)
    for sigma in (0.0, 0.01, 0.03):
        found = denoise.noise_level(flat + rng.normal(0, sigma, flat.shape), 1.0)
        assert abs(found - sigma) <= 0.15 * sigma


@pytest.mark.parametrize("sampling", [0, 1, 2])  # colours as large as the picture, half as wide, half as wide and high
def test_grain_is_measured_in_jpeg_files_whatever_size_their_colours_have(sampling):
    rng, file = np.random.default_rng(0), io.BytesIO()
    clean = 40.0 + 30.0 * np.sin(np.linspace(0, 6, 300))[None, :, None] * np.array([1.0, 0.8, 0.6])
    noisy = (clean + rng.normal(0, 5.0, (200, 300, 3))).clip(0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(file, "JPEG", quality=95, subsampling=sampling)
    read = np.asarray(Image.open(file))
    # of independent noise in three channels the luma has .668
    assert 0.6 * 0.668 * 5.0 < 255 * denoise.noise_level(read, 255.0) < 1.3 * 5.0


def test_grain_of_a_grey_photo_is_the_same_with_one_channel_and_with_three():
    rng = np.random.default_rng(0)
    grey = (60 + rng.normal(0, 5.0, (120, 160, 1))).astype(np.uint8)
    assert denoise.noise_level(grey, 255.0) == pytest.approx(
        denoise.noise_level(np.repeat(grey, 3, axis=2), 255.0), rel=1e-3
    )


def test_fine_detail_of_the_scene_is_not_taken_for_noise_where_some_of_it_is_flat():
    rng = np.random.default_rng(0)
    picture = np.full((120, 160, 3), 60.0)
    picture[:, 40:] += rng.normal(0, 20.0, (120, 120, 1))  # gravel, of one colour
    assert 255 * denoise.noise_level(picture.clip(0, 255), 255.0) < 0.5


def test_smoothing_keeps_what_is_not_noise():
    picture = scene(80, 100).astype(np.float32)
    none = np.zeros(picture.shape[:2], dtype=np.float32)
    assert np.array_equal(denoise.smoothed(picture, none, none), picture)
    faint = denoise.smoothed(picture, none + 1e-3, none + 1)
    assert np.abs(faint - picture).mean() < 0.02


def night(seed=0):
    """A building in light under a black sky of the levels 0 to 3, as cameras leave it."""
    rng = np.random.default_rng(seed)
    picture = rng.choice(4, (120, 160, 1), p=[0.4, 0.3, 0.2, 0.1]) + np.zeros((1, 1, 3), int)
    picture[70:, 40:120] = 150 + rng.integers(0, 40, (50, 80, 1))
    return picture.astype(np.uint8)


def test_a_black_sky_is_smoothed_though_its_noise_cannot_be_measured():
    sky = (slice(5, 55), slice(5, 155))
    picture = night()
    assert denoise.noise_level(picture, 255.0) * 255 < 1.0
    rough, smooth = (Enhancer(denoise=on)(picture)[sky].astype(float) for on in (False, True))
    assert smooth.std() < 0.7 * rough.std()


def test_black_is_kept_blacker_in_a_picture_with_highlights():
    values = np.linspace(0.0, 0.1, 50)
    for exponent in (0.2, 0.75):
        kept = [near_black(values, exponent, h)[1] for h in (0.0, 0.5, 1.0)]
        assert np.all(kept[0] >= kept[1])
        assert np.all(kept[1] >= kept[2])
        assert all(np.all(np.diff(part * values) >= 0) for part in kept)
    assert near_black(values, 0.0, 1.0)[1].min() == 1.0  # no gain, nothing dimmed
    assert highlights_of(night().max(axis=-1) / 255.0) > 0.9
    assert highlights_of(night().max(axis=-1) / 1020.0) == 0.0


def toy(black, light=200):
    """A white toy before a backdrop of one colour that is nearly black."""
    picture = np.empty((120, 160, 3), np.uint8)
    picture[:] = black
    picture[30:110, 50:110] = np.linspace(60, light, 80).astype(np.uint8)[:, None, None]
    return picture


def chroma(pixels):
    return int(pixels.max(axis=-1).astype(int).max() - pixels.min(axis=-1).astype(int).min())


@pytest.mark.parametrize("black", [(15, 3, 15), (1, 5, 4), (9, 0, 0)])
def test_a_backdrop_of_coloured_black_takes_on_no_colour(black):
    picture = toy(black)
    result = Enhancer()(picture)
    assert chroma(result[:20, :20]) <= 6
    ramp = result[40:100, 60:100].astype(int)
    assert np.abs(ramp - ramp.mean(axis=-1, keepdims=True)).max() <= 8  # the white toy stays white


@pytest.mark.parametrize(
    "picture",
    [toy((15, 3, 15), light=70), toy((0, 0, 0)), toy((7, 7, 7)), toy((20, 40, 120)), dark_scene(), scene(60, 80)],
    ids=["without highlights", "black", "grey", "a blue wall", "a dark scene", "a bright scene"],
)
def test_only_a_pile_of_coloured_black_is_a_cast(picture):
    assert black_cast(grid.shrink(picture)) == (0.0, 0.0, 0.0)


def test_a_cast_is_taken_off_black_not_off_white():
    values = np.linspace(0.0, 1.0, 50)[:, None, None] * np.ones((1, 1, 3))
    cleared = without_cast(values, (0.05, 0.0, 0.02))
    assert np.all(np.diff(cleared, axis=0) >= 0.0)
    assert np.array_equal(cleared[-1], values[-1])
    assert np.array_equal(cleared[..., 1], values[..., 1])
    assert np.array_equal(without_cast(values, (0.05, 0.0, 0.02), exponent=0.0), values)


def test_rendering_by_tables_agrees_with_the_formulas_under_a_black_sky():
    picture = night(1)
    exposure = Enhancer().analyse(picture)
    assert np.abs(render(picture, exposure, False) - 255 * render(picture / 255, exposure, False)).max() <= 2
