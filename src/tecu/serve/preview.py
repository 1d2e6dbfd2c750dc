r"""A photo small enough to answer a slider at once: the light is found once, the rest is applied anew.

    result = curve(O gain(V, I)),  I = clip(a V + b, V / headroom, 1)

``a``, ``b`` and the tone at strength 1 are found once, on the whole photo. Strength, headroom and denoising only change
what is done with them: see :meth:`tecu.lowlight.tone.Tone.with_strength`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tecu.lowlight import Enhancer
from tecu.lowlight.denoise import noise_level
from tecu.lowlight.enhancer import ROUNDING
from tecu.lowlight.exposure import Exposure, amplification, illumination_at, without_cast
from tecu.lowlight.files import Metadata, Photo
from tecu.lowlight.grid import enlarge, shrink, whitepoint
from tecu.lowlight.images import visible_pixels
from tecu.lowlight.model import HEADROOM, MODELS
from tecu.lowlight.render import finished, render
from tecu.lowlight.tone import at_strength

Pixels = np.ndarray[Any, Any]

LONGEST = 1600  # the longer side of a preview, in pixels
ORIGINAL, ILLUMINATION, REFLECTANCE = "original", "illumination", "reflectance"
LAYERS = (ORIGINAL, ILLUMINATION, REFLECTANCE)
ALL = slice(None)


@dataclass(frozen=True)
class Look:
    """What of a photo is looked at: the original, a layer, or a method's result with its settings."""

    what: str = "tecu"
    strength: float = 1.0
    denoise: bool = True
    headroom: float = HEADROOM

    @property
    def is_layer(self) -> bool:
        """Whether it is no method's result: of the settings only the headroom has a say, and not in the original."""
        return self.what in LAYERS

    @property
    def is_model(self) -> bool:
        """Whether it is a method of the Retinex model, with an illumination found once."""
        return self.what in MODELS

    @property
    def key(self) -> Look:
        """The same for looks that show the same picture."""
        if self.is_layer:
            return Look(self.what) if self.what == ORIGINAL else Look(self.what, headroom=self.headroom)
        return self if self.is_model else Look(self.what, self.strength)

    def enhancer(self) -> Enhancer:
        """The enhancer that makes it, as ``tecu enhance`` would; a wrong setting is a ``ValueError``."""
        return Enhancer(self.what, strength=self.strength, denoise=self.denoise, headroom=self.headroom)


@dataclass(frozen=True)
class Scene:
    """What is found once about a photo: its exposure at strength 1, and ``V`` on the grid of the exposure."""

    exposure: Exposure
    brightest: Pixels

    @classmethod
    def of(cls, photo: Photo, method: str) -> Scene:
        """Look at the whole photo, but for what is hidden by its transparency."""
        pixels = visible_pixels(photo.alpha, photo.pixels)
        exposure = Enhancer(method).analyse(pixels)
        return cls(exposure, without_cast(shrink(_rgb(pixels)), exposure.cast).max(axis=-1))

    def at(self, look: Look) -> Exposure:
        """The exposure with the settings of ``look``, without looking at the photo again."""
        found = self.exposure
        tone = found.tone.with_strength(look.strength)
        light = illumination_at(self.brightest, found.slope, found.offset, look.headroom)
        lifted = amplification(self.brightest, light, tone, look.headroom)
        return replace(found, tone=tone, amplification=lifted, headroom=look.headroom)


def smaller(photo: Photo, longest: int = LONGEST) -> Photo:
    """The photo, averaged down until no side exceeds ``longest``; of its metadata the colour profile stays.

    >>> smaller(Photo(np.full((40, 60, 3), 9, np.uint8)), 30).size
    (30, 20)
    """
    profile = Metadata(icc=photo.metadata.icc)
    if max(photo.size) <= longest:
        return replace(photo, metadata=profile)
    pixels = _shrunk(photo.pixels, longest)
    alpha = None if photo.alpha is None else _shrunk(photo.alpha, longest)
    return Photo(pixels, alpha, profile, photo.encoding)


def rendered(preview: Photo, scene: Scene, look: Look) -> Pixels:
    """The preview's result; smoothing goes by the noise that is left in the preview, as averaging has removed some."""
    if look.strength == 0.0:
        return preview.pixels
    pixels = _channels(preview.pixels)
    white = whitepoint(pixels.dtype)
    exposure = scene.at(look)
    if look.denoise:
        exposure = replace(exposure, noise=max(noise_level(pixels, white), ROUNDING / white))
    return render(pixels, exposure, look.denoise, compiled=True).reshape(preview.pixels.shape)


def blended(pixels: Pixels, full: Pixels, strength: float) -> Pixels:
    """A classical method at a strength, as the enhancer does it; ``full`` is the result at strength 1."""
    white = np.float32(whitepoint(pixels.dtype))
    observed, result = (_channels(part).astype(np.float32) / white for part in (pixels, full))
    return finished(at_strength(observed, result, strength).reshape(pixels.shape), pixels)


def layer(values: Pixels) -> Pixels:
    """Illumination or reflectance as a picture of 8 bits."""
    return np.asarray(np.rint(255 * np.clip(values, 0.0, 1.0)), dtype=np.uint8)


def layer_part(pixels: Pixels, exposure: Exposure, what: str, rows: slice = ALL, columns: slice = ALL) -> Pixels:
    """A part of a layer of the photo, or all of it: ``I`` there, or ``O / I``; the rest is not computed."""
    part = pixels[rows, columns].astype(np.float32) / np.float32(whitepoint(pixels.dtype))
    slope, offset = (enlarge(plane, pixels.shape[:2], rows)[:, columns] for plane in (exposure.slope, exposure.offset))
    light = exposure.light(_channels(part), slope, offset)
    if what == ILLUMINATION:
        return layer(light)
    return layer(part / (light if part.ndim == 2 else light[..., None]))


def _shrunk(pixels: Pixels, longest: int) -> Pixels:
    white = whitepoint(pixels.dtype)
    small = np.rint(shrink(_rgb(pixels), longest) * np.float32(white)).astype(pixels.dtype)
    return small if pixels.ndim == 3 else np.ascontiguousarray(small[..., 0])


def _channels(pixels: Pixels) -> Pixels:
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _rgb(pixels: Pixels) -> Pixels:
    pixels = _channels(pixels)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels
