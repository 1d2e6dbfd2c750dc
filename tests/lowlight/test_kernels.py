"""Rendering by tables: NumPy and compiled kernels to the byte, both against the formulas; tiles, threads, memory."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from lowlight.scenes import dark_scene
from tecu.lowlight import Enhancer, grid, kernels
from tecu.lowlight.kernels_bytes import cell_means, pad_rows
from tecu.lowlight.kernels_denoise import smooth_tile
from tecu.lowlight.kernels_tone import tone_tile
from tecu.lowlight.render import render
from tecu.lowlight.tone import Tone


@pytest.fixture(scope="module")
def noisy():
    return dark_scene(220, 330, noise=0.012)


@pytest.fixture(params=[(0.0, 0.0, 0.0), (12 / 255, 0.0, 4 / 255)], ids=["black", "coloured black"])
def cast(request):
    return request.param


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_rendering_by_tables_agrees_with_the_formulas(noisy, smooth, dtype, channels, cast):
    white = np.iinfo(dtype).max
    pixels = np.ascontiguousarray((noisy.astype(dtype) * (white // 255))[..., :channels])
    exposure = replace(Enhancer().analyse(np.repeat(pixels[..., :1], 3, axis=2)), cast=cast)
    assert exposure.smoothing()[1].max() > 0.5
    tables = render(pixels, exposure, smooth).astype(float)
    formulas = np.rint(white * render(pixels / white, exposure, smooth))
    assert np.abs(tables - formulas).max() <= 2 * white / 255
    assert np.abs(tables - formulas).mean() <= white / 255 / 4


@pytest.mark.parametrize("size", [(220, 330), (131, 277), (3, 5), (200, 1), (1, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_compiled_rendering_is_that_of_numpy_to_the_byte(size, dtype, channels, cast):
    """So a picture alone and among many others, which are left to the kernels, is the same."""
    rng = np.random.default_rng(0)
    large = dark_scene(220, 330, noise=0.012)[: size[0], : size[1]].astype(dtype) * (np.iinfo(dtype).max // 255)
    pixels = np.ascontiguousarray((large + rng.integers(0, 2, large.shape).astype(dtype))[..., :channels])
    pixels[0, 0] = np.iinfo(dtype).max
    for strength in (0.6, 1.0, 1.8):
        exposure = replace(Enhancer(strength=strength).analyse(pixels), cast=cast)
        for smooth in (False, True):
            plain, compiled = (render(pixels, exposure, smooth, compiled=on) for on in (False, True))
            assert np.array_equal(plain, compiled)


def test_many_small_pictures_are_left_to_the_kernels(noisy, monkeypatch):
    used = []
    monkeypatch.setattr(kernels, "render", lambda pixels, *_: used.append(pixels.shape) or pixels)
    monkeypatch.setattr("tecu.lowlight.render._by_numpy", 0)
    monkeypatch.setattr("tecu.lowlight.render.MANY", 3 * noisy[..., 0].size)
    exposure = Enhancer().analyse(noisy)
    for _ in range(5):
        render(noisy, exposure, True)
        render(noisy / 255, exposure, True)  # of floats there are no kernels
    assert used == [noisy.shape] * 2


@pytest.mark.parametrize("smooth", [False, True])
def test_pixels_four_bytes_apart_give_the_same_result_in_the_same_layout(noisy, smooth):
    exposure = Enhancer().analyse(noisy)
    apart = kernels.padded(noisy)[..., :3]
    assert np.array_equal(apart, noisy)
    result = render(apart, exposure, smooth, compiled=True)
    assert np.array_equal(result, render(noisy, exposure, smooth, compiled=True))
    whole = kernels.padding(result)
    assert whole is not None
    assert np.all(whole[..., 3] == 255)
    assert kernels.padded(result) is whole  # handed on without a copy
    assert np.array_equal(kernels.shrink(apart, (50, 60)), kernels.shrink(noisy, (50, 60)))


def test_a_part_of_a_padded_picture_is_not_taken_for_the_whole():
    whole = np.random.default_rng(0).integers(0, 255, (20, 30, 4), dtype=np.uint8)
    for part in (whole[..., 1:], whole[..., 2::-1], whole[::-1, :, :3], whole[2:, :, :3], whole[:, :9, :3]):
        assert kernels.padding(part) is None
        assert np.array_equal(kernels.padded(part)[..., :3], part)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_compiled_rendering_with_no_exposure_is_the_identity(dtype):
    pixels = np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (40, 60, 3)).astype(dtype)
    exposure = Enhancer().analyse(pixels)
    idle = exposure.__class__(exposure.slope, exposure.offset, exposure.tone.with_strength(0.0), exposure.slope * 0 + 1)
    assert np.array_equal(kernels.render(pixels, idle, None), pixels)


def test_strips_leave_no_seams(noisy):
    """A strip's result must not depend on where strips begin: a picture cut below is the same above the cut."""
    exposure = Enhancer().analyse(noisy)
    tall = np.concatenate([noisy, noisy[::-1]])
    twice = exposure.__class__(
        *(np.concatenate([part, part[::-1]]) for part in (exposure.slope, exposure.offset)),
        exposure.tone, np.concatenate([exposure.amplification, exposure.amplification[::-1]]), exposure.noise,
    )  # fmt: skip
    for compiled in (False, True):
        result = render(tall, twice, True, compiled=compiled).astype(int)
        assert np.abs(result - result[::-1]).max() <= 1


@pytest.mark.parametrize("size", [(300, 500), (129, 4700), (1000, 7), (2, 2)])
def test_tiles_cover_every_pixel_once_and_all_that_is_noisy(size):
    height, width = size
    rng = np.random.default_rng(0)
    for density in (0.0, 0.01, 0.2, 1.0):
        share = (rng.random((min(height, 40), min(width, 60))) < density).astype(np.float32)
        covered, smoothed = np.zeros(size, int), np.zeros(size, bool)
        for (top, bottom, left, right), noisy in kernels.tiles(share, height, width):
            covered[top:bottom, left:right] += 1
            smoothed[top:bottom, left:right] |= noisy
        assert np.all(covered == 1)
        assert np.all(smoothed[grid.enlarge(share, size) > 0])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_result_does_not_depend_on_the_order_in_memory(noisy, dtype, channels):
    pixels = np.ascontiguousarray(noisy[..., :channels].astype(dtype) * (np.iinfo(dtype).max // 255))
    exposure = Enhancer().analyse(pixels)
    expected = render(pixels, exposure, smooth=False, compiled=True)
    turned = np.ascontiguousarray(pixels.transpose(1, 0, 2)).transpose(1, 0, 2)
    for other in (np.asfortranarray(pixels), turned, pixels[::-1].copy()[::-1]):
        assert np.array_equal(render(other, exposure, smooth=False, compiled=True), expected)


@pytest.mark.parametrize(("channels", "padded"), [(1, False), (3, False), (3, True)])
def test_result_does_not_depend_on_the_tiles(noisy, channels, padded, monkeypatch):
    exposure = Enhancer().analyse(noisy)
    pixels = np.ascontiguousarray(noisy[..., :channels])
    if padded:
        pixels = kernels.padded(pixels)[..., :3]
    noise, share = exposure.smoothing()
    share[40:70], share[:, :9] = 0.0, 0.0
    whole = kernels.render(pixels, exposure, (noise, share))
    monkeypatch.setattr(kernels, "STRIP", 16)
    monkeypatch.setattr(kernels, "WIDEST", 48)
    assert len(list(kernels.tiles(share, *pixels.shape[:2]))) > 10
    assert np.array_equal(kernels.render(pixels, exposure, (noise, share)), whole)


@pytest.mark.parametrize("smooth", [False, True])
def test_result_does_not_depend_on_the_number_of_threads(noisy, smooth, monkeypatch):
    tall = np.concatenate([noisy, noisy[::-1], noisy])
    exposure = Enhancer().analyse(tall)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = render(tall, exposure, smooth, compiled=True)
    for count in ("2", "3", "40"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        assert kernels.threads() == min(int(count), kernels.MOST_THREADS)
        assert np.array_equal(render(tall, exposure, smooth, compiled=True), alone)


@pytest.mark.parametrize("compiled", [False, True])
def test_headroom_bounds_the_gain(noisy, compiled):
    """With the diagonal as the curve no pixel below the headroom is raised above it, and a brighter one stays."""
    for headroom in (0.6, 0.8, 0.99):
        exposure = Enhancer(headroom=headroom, denoise=False).analyse(noisy)
        plain = replace(exposure, tone=Tone(1.0, np.linspace(0.0, 1.0, 4097)))
        result, before = render(noisy, plain, False, compiled=compiled), noisy.max(axis=-1)
        raised = result.max(axis=-1)
        assert raised[before <= 255 * headroom].max() <= 255 * headroom + 1
        assert np.all(np.abs(raised.astype(int) - before)[before > 255 * headroom + 1] <= 1)
        assert raised.max() > before[before <= 255 * headroom].max() or headroom < 0.7


@pytest.mark.parametrize("headroom", [0.2, 1.0, float("nan"), "much"])
def test_headroom_is_checked(headroom):
    with pytest.raises(ValueError, match=r"headroom must be a number from 0\.5 to 0\.99"):
        Enhancer(headroom=headroom)


def test_compiled_shrinking_agrees_with_means():
    pixels = dark_scene(400, 640)
    exact = pixels.reshape(100, 4, 160, 4, 3).mean(axis=(1, 3)) / 255
    assert np.abs(kernels.shrink(pixels, (100, 160)) - exact).max() < 1e-5


def test_a_steep_curve_is_followed_to_the_level_near_black():
    """Where a curve lifts black most, the places of neighbouring levels are few entries of the table apart."""
    pixels = np.random.default_rng(0).integers(0, 12, (120, 160, 3), dtype=np.uint8)
    found = Enhancer().analyse(pixels)
    bright = replace(found, slope=0 * found.slope, offset=0 * found.offset + np.float32(0.9), highlights=1.0)
    for power in (1 / 6, 0.2, 0.4):  # the first is the steepest that the rule takes
        steep = replace(bright, tone=Tone(0.7, np.linspace(0.0, 1.0, 4097) ** power))
        formulas = np.rint(255 * render(pixels / 255, steep, False))
        assert np.abs(render(pixels, steep, False) - formulas).max() <= 1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.filterwarnings("ignore:overflow encountered")  # 32 bits are meant to be cut off
def test_kernels_do_what_their_python_does(dtype, channels, monkeypatch):
    pixels = np.ascontiguousarray(dark_scene(20, 20, noise=0.02)[:9, :11, :channels])
    pixels = pixels.astype(dtype) * (np.iinfo(dtype).max // 255)
    exposure = replace(Enhancer().analyse(pixels), cast=(12 / 255, 0.0, 4 / 255))
    smoothing = exposure.smoothing()[0], np.ones_like(exposure.slope)

    def results():
        yield kernels.render(pixels, exposure, None)
        yield kernels.render(pixels, exposure, smoothing)
        if dtype == np.uint8:
            yield kernels.shrink(pixels, (3, 4))
        if dtype == np.uint8 and channels == 3:
            yield kernels.padded(pixels)

    by_kernels = list(results())
    for kernel in (cell_means, pad_rows, smooth_tile, tone_tile):
        monkeypatch.setattr(kernels, kernel.__name__, kernel.function)
    for one, other in zip(by_kernels, results(), strict=True):
        assert np.array_equal(one, other)


LARGE_PHOTO = """
import hashlib, sys
import numpy as np
from tecu.lowlight import Enhancer
rng = np.random.default_rng(0)
for dtype in (np.uint8, np.uint16):
    photo = rng.integers(0, 40, (900, 900, 3)).astype(dtype) * dtype(np.iinfo(dtype).max // 255)
    print(hashlib.sha256(Enhancer()(photo).tobytes()).hexdigest())
print("numba" in sys.modules)
"""


def test_a_large_photo_in_a_later_process_needs_no_numba(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, later = (
        subprocess.run([sys.executable, "-c", LARGE_PHOTO], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert first.stderr.count("compiling the kernels of photo enhancement") == 2  # of 8 bits, of 16
    assert "compiling" not in later.stderr
    assert later.stdout.splitlines()[-1] == "False"
    assert first.stdout.splitlines()[:-1] == later.stdout.splitlines()[:-1]
