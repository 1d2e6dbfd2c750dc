"""Pictures made up for the tests, and dark versions of the photos inside scikit-learn."""

import struct
from functools import lru_cache

import numpy as np
from PIL import Image


def scene(height=60, width=90, seed=0):
    """A clean picture with edges, gradients and texture; float32 in [0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    picture = np.stack([0.3 + 0.5 * x, 0.2 + 0.6 * y, 0.7 - 0.4 * x * y], axis=-1)
    for _ in range(6):
        top, left = rng.integers(0, height - 12), rng.integers(0, width - 12)
        picture[top : top + 12, left : left + 12] = rng.random(3)
    return np.clip(picture + rng.normal(0, 0.01, picture.shape), 0, 1).astype(np.float32)


def dark_scene(height=60, width=90, seed=0, light=0.12, noise=0.0):
    """The scene under little light, falling off to one side, as 8-bit pixels."""
    fall = np.linspace(1.0, 0.5, width, dtype=np.float32)[None, :, None]
    picture = scene(height, width, seed) * light * fall
    picture = picture + np.random.default_rng(seed + 1).normal(0, noise, picture.shape)
    return np.rint(np.clip(picture, 0, 1) * 255).astype(np.uint8)


@lru_cache
def photo(name="china.jpg", size=(320, 213)):
    """A well-exposed photograph as 8-bit pixels."""
    from sklearn.datasets import load_sample_image

    return np.asarray(Image.fromarray(load_sample_image(name)).resize(size, Image.Resampling.LANCZOS))


def darkened(pixels, stops=4.0, noise=0.0, seed=0):
    """The photograph with ``2^-stops`` of the light, through a gamma of 2.2, 8 bits."""
    linear = (pixels / 255.0) ** 2.2 * 2.0**-stops
    encoded = linear ** (1 / 2.2) + np.random.default_rng(seed).normal(0, noise, pixels.shape)
    return np.rint(np.clip(encoded, 0, 1) * 255).astype(np.uint8)


def psnr(a, b):
    return -10 * np.log10(np.mean((a.astype(float) - b) ** 2) / 255**2 + 1e-12)


def inks_profile():
    """A small ICC profile of four inks (CMYK) of which cyan prints as red, so that one sees whether it was used."""
    inks = np.array([[136, 208, 195], [150, 226, 60], [248, 108, 220], [0, 128, 128]])  # L, a, b of each; white is 255
    table = np.empty((2, 2, 2, 2, 3), np.uint8)
    for node in np.ndindex(2, 2, 2, 2):
        printed = inks[np.array(node, bool)]
        table[node] = [printed[:, 0].min(), *printed[:, 1:].mean(axis=0)] if len(printed) else [255, 128, 128]
    ramp = bytes(range(256))
    matrix = struct.pack(">9i", *(0x10000 * np.eye(3, dtype=int)).ravel().tolist())
    lut = b"mft1" + bytes(4) + bytes([4, 3, 2, 0]) + matrix + 4 * ramp + table.tobytes() + 3 * ramp
    start = 128 + 4 + 12
    head = struct.pack(">I4xI", start + len(lut), 0x02400000) + b"prtrCMYKLab " + bytes(12) + b"acsp" + bytes(28)
    head += struct.pack(">3i", 0xF6D6, 0x10000, 0xD32D)  # the white of all profiles
    return head.ljust(128, b"\0") + struct.pack(">I4sII", 1, b"A2B0", start, len(lut)) + lut
