"""Strength: up to 1 a part of what was proposed, above 1 the shadows are lifted and nothing bright is wiped out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lowlight.scenes import dark_scene, darkened, photo
from tecu.lowlight import Enhancer
from tecu.lowlight.render import render
from tecu.lowlight.tone import LIFT, Tone, curve_through, lift_at
from tecu.serve.preview import blended

DIAGONAL = np.linspace(0.0, 1.0, 4097)
STRENGTHS = (1.0, 1.001, 1.2, 1.4, 1.7, 2.0)


def backlit():
    """A bright sky above ground in shadow: well exposed in the mean."""
    picture = photo().copy()
    picture[110:] = darkened(picture[110:], stops=3.5)
    return picture


def sunset():
    """A dark scene with a sun, and all there is between the two."""
    y, x = np.mgrid[0:160, 0:240]
    glow = 255.0 * np.exp(-np.hypot(y - 50, x - 120) / 30.0)
    return np.clip(dark_scene(160, 240) + glow[..., None] * [1.0, 0.9, 0.7], 0, 255).astype(np.uint8)


PICTURES = {"good": photo(), "backlit": backlit(), "dark": darkened(photo()), "sunset": sunset()}


def luma(pixels):
    return pixels @ np.array([0.299, 0.587, 0.114])


def at(picture, strength, compiled, **settings):
    exposure = Enhancer(strength=strength, denoise=False, **settings).analyse(picture)
    return render(picture, exposure, False, compiled=compiled)


@pytest.mark.parametrize("strength", [0.0, 0.3, 0.8, 1.0])
def test_up_to_1_exponent_and_distance_to_the_diagonal_are_multiplied(strength):
    rng = np.random.default_rng(0)
    curve = curve_through(np.concatenate([[0.0], np.cumsum(rng.dirichlet(np.full(10, 0.5)))]))
    tone = Tone(0.6, curve).with_strength(strength)
    expected = np.clip(DIAGONAL + strength * (curve - DIAGONAL), 0.0, 1.0)
    assert tone.exponent == 0.6 * strength
    assert np.array_equal(tone.curve, np.maximum.accumulate(expected))
    brightest, light = (rng.random(50, dtype=np.float32) + np.float32(0.01) for _ in range(2))
    assert np.array_equal(tone.gain(brightest, light, 0.97), light ** np.float32(-0.6 * strength))


@pytest.mark.parametrize("lift", [0.1, 0.5 * LIFT, LIFT])
def test_the_lift_rises_to_the_headroom_and_keeps_what_is_brighter(lift):
    for headroom in (0.5, 0.97):
        lifted = DIAGONAL * lift_at(DIAGONAL, lift, headroom)
        assert np.all(np.diff(lifted) >= (1 - lift / 3) * np.diff(DIAGONAL) - 1e-12)
        assert np.all(lifted >= DIAGONAL)
        assert np.all(lifted[headroom >= DIAGONAL] <= headroom + 1e-12)
        assert np.array_equal(lifted[headroom < DIAGONAL], DIAGONAL[headroom < DIAGONAL])
    assert LIFT < 3.0  # no two levels become one


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PICTURES)
def test_no_pixel_becomes_darker_with_more_strength(name, compiled):
    results = [luma(at(PICTURES[name], strength, compiled)) for strength in STRENGTHS]
    for weaker, stronger in pairwise(results):
        assert np.all(stronger >= weaker - 1.0)  # rounding


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PICTURES)
def test_shadows_come_up_whatever_was_proposed(name, compiled):
    picture = PICTURES[name]
    proposed = Enhancer(denoise=False).analyse(picture)
    for tone in (proposed.tone, Tone(0.0, DIAGONAL)):
        results = [
            luma(render(picture, replace(proposed, tone=tone.with_strength(s)), False, compiled=compiled))
            for s in (1.0, 1.4, 2.0)
        ]
        shadows = luma(picture) < min(64, np.percentile(luma(picture), 30))
        means = [result[shadows].mean() for result in results]
        assert all(stronger > 1.1 * weaker for weaker, stronger in pairwise(means))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", PICTURES)
def test_bright_parts_are_not_wiped_out(name, compiled):
    """Next to no pixel comes to white that was not there at strength 1, and few of the levels in use are merged."""
    picture = PICTURES[name]
    free = picture.max(axis=-1) < 240
    before = at(picture, 1.0, compiled).max(axis=-1)
    for strength in (1.4, 2.0):
        result = at(picture, strength, compiled).max(axis=-1)
        assert np.mean(free & (result >= 252)) <= np.mean(free & (before >= 252)) + 0.001
        assert len(np.unique(result[before > 128])) > 0.3 * len(np.unique(before[before > 128]))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("headroom", [0.6, 0.97])
@pytest.mark.parametrize("name", PICTURES)
def test_headroom_holds_as_at_strength_1(name, headroom, compiled):
    """What is brighter than the headroom stays as at strength 1, the rest below what the curve makes of it."""
    picture = PICTURES[name]
    exposure = Enhancer(strength=1.0, headroom=headroom).analyse(picture)
    limit = 255 * np.interp(headroom, DIAGONAL, exposure.tone.curve)
    brightest = picture.max(axis=-1)
    usual = at(picture, 1.0, compiled, headroom=headroom).max(axis=-1)
    for strength in (1.4, 2.0):
        result = at(picture, strength, compiled, headroom=headroom).max(axis=-1)
        assert np.all(result[brightest <= 255 * headroom] <= limit + 1)
        above = brightest > 255 * headroom + 1
        assert np.array_equal(result[above], usual[above])


@pytest.mark.parametrize("name", PICTURES)
def test_strength_is_continuous_at_1(name):
    for compiled in (False, True):
        below, usual, above = (at(PICTURES[name], s, compiled).astype(int) for s in (0.9999, 1.0, 1.0001))
        assert np.abs(below - usual).max() <= 1
        assert np.abs(above - usual).max() <= 1


def test_the_lift_keeps_colours():
    picture = dark_scene() / 255.0
    exposure = Enhancer(denoise=False).analyse(picture)
    result = render(picture, replace(exposure, tone=Tone(0.0, DIAGONAL, LIFT)), False)
    assert np.allclose(result * picture.max(-1, keepdims=True), picture * result.max(-1, keepdims=True), atol=1e-6)
    assert np.all(result.max(-1) >= picture.max(-1))


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_compiled_lift_agrees_with_numpy(smooth, dtype, channels):
    pixels = dark_scene(220, 330, noise=0.012).astype(dtype) * (np.iinfo(dtype).max // 255)
    exposure = Enhancer(strength=1.8).analyse(pixels)
    pixels = np.ascontiguousarray(pixels[..., :channels])
    plain, compiled = (render(pixels, exposure, smooth, compiled=on).astype(float) for on in (False, True))
    assert np.abs(plain - compiled).max() <= np.iinfo(dtype).max / 255 * 2
    assert np.abs(plain - compiled).mean() <= np.iinfo(dtype).max / 255 / 4


def test_the_lift_counts_as_amplification():
    """A good photo is smoothed where strength has brought up its noise."""
    picture = backlit()
    plain, strong = (Enhancer(strength=s).analyse(picture) for s in (1.0, 2.0))
    assert np.all(strong.amplification >= plain.amplification)
    assert strong.amplification.max() > 1.5 * plain.amplification.max()


def test_lifts_blend_between_frames():
    weak, strong = (Enhancer(strength=s).analyse(backlit()) for s in (1.0, 2.0))
    assert weak.blend(strong, 0.25).tone.lift == pytest.approx(0.25 * LIFT)


@pytest.mark.parametrize("name", ["good", "backlit", "dark"])
def test_classical_methods_follow_the_same_laws(name):
    picture = PICTURES[name]
    free = picture.max(axis=-1) < 240
    usual = Enhancer("msrcr")(picture)
    for grey in (False, True):
        pixels, full = (part[..., 1] if grey else part for part in (picture, usual))
        results = [blended(pixels, full, s).astype(float) for s in STRENGTHS]
        assert np.array_equal(results[0], full)
        assert all(np.all(stronger >= weaker) for weaker, stronger in pairwise(results))
        assert results[-1].mean() > results[0].mean()
    strong = Enhancer("msrcr", strength=2.0)(picture)
    assert np.abs(strong - blended(picture, usual, 2.0).astype(float)).max() <= 2  # of the result rounded before
    assert np.mean(free & (strong.max(-1) >= 252)) <= np.mean(free & (usual.max(-1) >= 252)) + 0.001
