"""What is found out about a picture before a pixel of the result is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tecu.lowlight.denoise import smoothing_share
from tecu.lowlight.features import brightest_of, percentiles
from tecu.lowlight.fixed import DARKEST
from tecu.lowlight.grid import box_mean
from tecu.lowlight.model import HEADROOM
from tecu.lowlight.tone import Tone, highlights_of

Pixels = np.ndarray[Any, Any]

NEARLY_BLACK = 8.0 / 255.0
PILE = 1.0 / 255.0  # black that lies closer together than this was cut off
FURTHEST = 24.0 / 255.0  # a value further from black is less and less, and twice as far not at all taken for black
CRUSHED = 1.2 / 255.0  # the noise of black itself; it is clipped, so it cannot be measured


@dataclass(frozen=True)
class Exposure:
    """Illumination ``I = slope V + offset`` (maps on the grid), tone, amplification on the grid, noise of the input.

    ``result = tone.curve(O tone.gain(V, I))``, ``V = max(R, G, B)``, ``I`` kept in ``[V / headroom, 1]``. ``crushed``
    is the least noise to be expected in each cell, ``highlights`` says how much of its range the picture uses, 0 to 1,
    ``cast`` is the colour of its black.
    """

    slope: Pixels
    offset: Pixels
    tone: Tone
    amplification: Pixels
    noise: float = 0.0
    headroom: float = HEADROOM
    crushed: Pixels | float = 0.0
    highlights: float = 0.0
    cast: tuple[float, ...] = (0.0, 0.0, 0.0)

    def blend(self, other: Exposure, weight: float) -> Exposure:
        """``(1 - weight)`` of this and ``weight`` of the other, part by part; the other alone if its grid differs."""
        if self.slope.shape != other.slope.shape:
            return other

        def mix(a: Any, b: Any) -> Any:
            return (1.0 - weight) * a + weight * b

        return Exposure(
            np.asarray(mix(self.slope, other.slope), dtype=np.float32),
            np.asarray(mix(self.offset, other.offset), dtype=np.float32),
            Tone(
                float(mix(self.tone.exponent, other.tone.exponent)),
                np.asarray(mix(self.tone.curve, other.tone.curve)),
                float(mix(self.tone.lift, other.tone.lift)),
            ),
            np.asarray(mix(self.amplification, other.amplification), dtype=np.float32),
            float(mix(self.noise, other.noise)),
            float(mix(self.headroom, other.headroom)),
            np.asarray(mix(self.crushed, other.crushed), dtype=np.float32),
            float(mix(self.highlights, other.highlights)),
            tuple(mix(a, b) for a, b in zip(self.cast, other.cast, strict=True)),
        )

    def bare(self, observed: Pixels) -> Pixels:
        """The pixels (``h x w x c`` in [0, 1]) without the colour of black, as much of it as goes under this tone."""
        return without_cast(observed, self.cast, self.tone.exponent) if observed.shape[2] == 3 else observed

    def light(self, observed: Pixels, slope: Pixels, offset: Pixels) -> Pixels:
        """``I`` at the pixels ``observed``, by which they are raised; ``slope`` and ``offset`` are the maps there."""
        return illumination_at(self.bare(observed).max(axis=-1), slope, offset, self.headroom)

    def smoothing(self) -> tuple[Pixels, Pixels]:
        """Noise in the result, and how much of it to smooth away: maps on the grid."""
        noise = (np.maximum(self.noise, self.crushed) * self.amplification).astype(np.float32)
        return noise, smoothing_share(noise, self.amplification).astype(np.float32)


def black_cast(picture: Pixels) -> tuple[float, ...]:
    """The colour of black in ``picture`` (``h x w x 3``), its least channel taken off: zeros where black is black.

    Where a camera or an editor cuts off black, a tenth of the picture and more piles up at one value, which a lit scene
    never does. If that has a colour, it is an offset of the channels; under a strong gain the whole backdrop would
    take on that colour. Only in a picture with highlights: in another, the pile may be a dim wall.
    """
    brightest = brightest_of(picture)
    lowest, tenth = percentiles(brightest, [1.0, 10.0])
    piled, dark = np.clip([2.0 - 2.0 * (tenth - lowest) / PILE, 2.0 - tenth / FURTHEST], 0.0, 1.0)
    share = highlights_of(brightest) * float(piled * dark)
    if share == 0.0:
        return 0.0, 0.0, 0.0
    black = np.array([percentiles(picture[..., c], [5.0])[0] for c in range(3)])
    offset = (black - black.min()) / (1.0 - black) ** 4  # so that all of it is taken off black
    return tuple((share * offset).tolist())


def without_cast(picture: Pixels, cast: tuple[float, ...], exponent: float = 1.0) -> Pixels:
    """``O - cast (1 - O)^4``: all of the cast is taken off black, little off grey, nothing off white.

    Under a weak gain less of it is taken off.
    """
    if not any(cast):
        return picture
    offset = np.asarray(cast, dtype=picture.dtype) * picture.dtype.type(gain_share(exponent))
    return np.asarray(np.maximum(picture - offset * (1 - picture) ** 4, 0), dtype=picture.dtype)


def gain_share(exponent: float) -> float:
    """How much of what is done to black under a strong gain is done under this one, 0 to 1."""
    return min(exponent / 0.5, 1.0)


def near_black(brightest: Pixels, exponent: float, highlights: float = 0.0) -> tuple[Pixels, Pixels]:
    """``(grey, dim)``: the colour a nearly black pixel loses, and the part of its value it keeps, under a strong gain.

    With ``t = clip(1 - V / .03, 0, 1)`` they are ``t^2`` and ``1 - .9 t^3``. Cameras clip near black, and not all
    channels alike: a gain of 20 would turn that into a colour cast, and the steps between 0, 1 and 2 into speckles.
    In a picture with highlights black is meant: there the dimming reaches twice as far and is complete at 0.
    """
    t, strength = np.clip(1.0 - brightest / NEARLY_BLACK, 0.0, 1.0), gain_share(exponent)
    deep = np.clip(1.0 - brightest / black_until(highlights), 0.0, 1.0)
    return np.asarray(strength * t * t), np.asarray(1.0 - (0.9 + 0.1 * highlights) * strength * deep**3)


def black_until(highlights: float) -> float:
    """The value from which on a pixel is not dimmed."""
    return NEARLY_BLACK * (1.0 + highlights)


def crushed_noise(brightest: Pixels) -> Pixels:
    """1.2 levels of 255 where the surroundings are black, less where they are not quite: clipping hides it there."""
    dark = np.clip(1.0 - box_mean(brightest, 2) / np.float32(NEARLY_BLACK), 0.0, 1.0)
    return np.asarray(CRUSHED * dark, dtype=np.float32)


def illumination_at(brightest: Pixels, slope: Pixels, offset: Pixels, headroom: float = HEADROOM) -> Pixels:
    """``clip(slope V + offset, V / headroom, 1)``: a pixel brighter than ``headroom`` is not raised at all."""
    lowest = np.clip(brightest / np.float32(headroom), DARKEST, 1.0)
    return np.asarray(np.clip(slope * brightest + offset, lowest, 1.0))


def amplification(brightest: Pixels, light: Pixels, tone: Tone, headroom: float = HEADROOM) -> Pixels:
    """By how much the tone lifts each cell of the grid: result over input, one 8-bit step added to both.

    A nearly black cell counts as its surroundings do: that it has no light by chance does not make it free of noise.
    """
    around = box_mean(brightest, 2)
    value = np.where(around < NEARLY_BLACK, around, brightest)
    raised = np.clip(value * tone.gain(value, light, headroom), 0.0, 1.0)
    result = tone.curve[np.rint(raised * (len(tone.curve) - 1)).astype(np.intp)]  # the nearest sample is near enough
    return np.asarray((result + 1 / 255) / (value + 1 / 255), dtype=np.float32)
