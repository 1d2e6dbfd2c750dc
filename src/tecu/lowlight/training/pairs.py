"""Dark pictures made from clean ones, on the fly.

Two kinds of pairs: for the illumination network ``(O, T, J)`` with ``O = T J + noise``, and for the tone network
``(O, target)`` where the darkening is an exposure of the linear light, or a field over the picture, or nothing.
Everything random comes from the generator handed in, so that a pair is a function of its seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, uniform_filter, zoom

from tecu.lowlight.features import luma

Pixels = np.ndarray[Any, Any]
Random = np.random.Generator

GRID = 192  # longest side of the views; finer than the grid of the decomposition, on which the networks do as well


def view(photo: Pixels, rng: Random) -> Pixels:
    """A random window of the photo, half to the whole of its sides, mirrored at random, on the working grid."""
    height, width = photo.shape[:2]
    part = rng.uniform(0.5, 1.0)
    h, w = (min(max(int(part * side), 8), side) for side in (height, width))
    top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
    window = Image.fromarray(photo[top : top + h, left : left + w])
    scale = GRID / max(h, w)
    size = (max(round(w * scale), 72), max(round(h * scale), 72))
    pixels = np.asarray(window.resize(size, Image.Resampling.BOX, reducing_gap=None), dtype=np.float32) / 255.0
    return np.ascontiguousarray(pixels[:, ::-1]) if rng.random() < 0.5 else pixels


def well_exposed(picture: Pixels, rng: Random) -> Pixels:
    """``J = picture^p`` with the power that brings its mean luma to between .38 and .58, if it was outside."""
    mean = float(luma(picture).mean())
    if 0.38 <= mean <= 0.58:
        return picture
    target = rng.uniform(0.38, 0.46) if mean < 0.38 else rng.uniform(0.50, 0.58)
    return power_to_mean(picture, target)


def power_to_mean(picture: Pixels, target: float) -> Pixels:
    """``picture^p`` whose mean luma is ``target``; ``p`` between 1/3 and 3, by bisection."""
    low, high = np.log(1 / 3), np.log(3.0)
    small = picture[::2, ::2]
    for _ in range(12):
        middle = (low + high) / 2
        if float(luma(small ** np.exp(middle)).mean()) > target:
            low = middle
        else:
            high = middle
    return np.asarray(picture ** np.float32(np.exp(middle)))


def illumination_pair(photo: Pixels, rng: Random) -> tuple[Pixels, Pixels, Pixels]:
    """``(O, T, J)``: the dark picture, the light that darkened it, the clean picture."""
    clean = well_exposed(view(photo, rng), rng)
    if rng.random() < 0.15:
        light = np.ones(clean.shape[:2], dtype=np.float32)
    else:
        light = np.float32(np.exp(rng.uniform(np.log(0.06), np.log(0.95)))) * _light_field(clean, rng)
    light = np.clip(light, 0.02, 1.0).astype(np.float32)
    dark = clean * light[..., None]
    return _noisy(dark, rng, read=rng.uniform(0.0, 0.01), shot=rng.uniform(0.0, 0.02)), light, clean


def tone_pair(photo: Pixels, rng: Random) -> tuple[Pixels, Pixels]:
    """``(O, target)``: 45 % exposures of 0.5 to 7 stops, 37 % fields of light, 18 % well exposed with target = O."""
    clean = well_exposed(view(photo, rng), rng)
    kind = rng.random()
    if kind < 0.18:
        picture = _noisy(clean, rng, read=rng.uniform(0.0, 0.004), shot=0.0)
        return picture, picture
    if kind < 0.63:
        dark = _under_expose(clean, stops=rng.uniform(0.5, 7.0), rng=rng)
    else:
        level = np.float32(np.exp(rng.uniform(np.log(0.06), np.log(0.8))))
        dark = clean * np.clip(level * _light_field(clean, rng), 0.01, 1.0)[..., None]
        dark = _noisy(dark, rng, read=rng.uniform(0.0, 0.008), shot=rng.uniform(0.0, 0.02))
    target = halved(clean)  # the loss is taken on a thumbnail
    target = exposure_fusion(target) if rng.random() < 0.5 else target
    return dark, power_to_mean(target, float(np.clip(rng.normal(0.49, 0.04), 0.38, 0.60)))


def halved(picture: Pixels) -> Pixels:
    """Means over 2 x 2 pixels."""
    even = picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]
    return np.asarray((even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]) / 4)


def exposure_fusion(picture: Pixels) -> Pixels:
    """Darker and brighter renderings of the picture, blended where each is well exposed (Mertens et al., 2007).

    Weights are the well-exposedness ``exp(-(Y - 1/2)^2 / 0.08)``; the blend is done band by band, the bands being
    differences of Gaussians on the full grid, so that no seams appear.
    """
    renderings = [np.clip(picture, 1e-4, 1.0) ** np.float32(p) for p in (0.45, 0.7, 1.0, 1.5)]
    weights = np.stack([np.exp(-((luma(r) - 0.5) ** 2) / 0.08) + 1e-6 for r in renderings])
    weights /= weights.sum(axis=0)
    fused = np.zeros_like(picture)
    sigmas = (1.0, 2.0, 4.0, 8.0, 16.0)
    for rendering, weight in zip(renderings, weights, strict=True):
        current, w = rendering, weight
        for sigma in sigmas:
            smooth = gaussian_filter(rendering, (sigma, sigma, 0), truncate=2.0)
            fused += w[..., None] * (current - smooth)
            current, w = smooth, gaussian_filter(weight, sigma, truncate=2.0)
        fused += w[..., None] * current
    return np.clip(fused, 0.0, 1.0).astype(np.float32)


def _light_field(clean: Pixels, rng: Random) -> Pixels:
    """A field of light with maximum about 1: smooth, or brighter where the picture is bright (back light), or both."""
    light = np.ones(clean.shape[:2], dtype=np.float32)
    choice = rng.random()
    if choice < 0.7:
        light = light * _smooth_field(light.shape, rng)
    if choice > 0.45:
        light = light * _back_light(luma(clean), rng)
    return light


def _smooth_field(shape: tuple[int, ...], rng: Random) -> Pixels:
    cells = int(rng.integers(2, 6))
    coarse = rng.normal(0.0, rng.uniform(0.2, 0.8), (cells, cells))
    field = zoom(coarse, (shape[0] / cells, shape[1] / cells), order=3, mode="nearest", grid_mode=True)
    field = field[: shape[0], : shape[1]]
    return np.asarray(np.exp(field - field.max()), dtype=np.float32)


def _back_light(y: Pixels, rng: Random) -> Pixels:
    """Light that follows the picture's own edges: a soft threshold of the luma, smoothed by a guided filter."""
    threshold = np.quantile(y, rng.uniform(0.3, 0.8))
    mask = 1.0 / (1.0 + np.exp(-(gaussian_filter(y, 2.0) - threshold) / 0.05))
    radius, eps = int(rng.integers(4, 12)), 1e-3
    size = 2 * radius + 1
    mean_y, mean_m = uniform_filter(y, size), uniform_filter(mask, size)
    slope = (uniform_filter(y * mask, size) - mean_y * mean_m) / (uniform_filter(y * y, size) - mean_y**2 + eps)
    offset = mean_m - slope * mean_y
    soft = np.clip(uniform_filter(slope, size) * y + uniform_filter(offset, size), 0.0, 1.0)
    low = rng.uniform(0.08, 0.6)
    return np.asarray(low + (1.0 - low) * soft, dtype=np.float32)


def _under_expose(clean: Pixels, stops: float, rng: Random) -> Pixels:
    """``2^-stops`` of the linear light, with noise, through a random tone curve of a camera."""
    linear = np.where(clean <= 0.04045, clean / 12.92, ((clean + 0.055) / 1.055) ** 2.4) * 2.0**-stops
    read = rng.uniform(0.0, 0.004) * 2.0 ** -min(stops, 4.0)
    linear = linear + rng.normal(size=linear.shape) * np.sqrt(read**2 + linear * rng.uniform(0.0, 0.01) ** 2)
    encoded = np.clip(linear, 0.0, 1.0) ** (1.0 / rng.uniform(1.8, 2.6))
    bend = rng.uniform(0.0, 0.5)  # an S-curve: 0 is none, 1 the smooth step
    encoded = (1.0 - bend) * encoded + bend * encoded * encoded * (3.0 - 2.0 * encoded)
    return _rounded(encoded.astype(np.float32), rng)


def _noisy(picture: Pixels, rng: Random, read: float, shot: float) -> Pixels:
    noise = rng.normal(size=picture.shape) * np.sqrt(read**2 + picture * shot**2)
    return _rounded(np.clip(picture + noise, 0.0, 1.0).astype(np.float32), rng)


def _rounded(picture: Pixels, rng: Random) -> Pixels:
    return np.round(picture * 255.0) / np.float32(255.0) if rng.random() < 0.5 else picture
