"""What is found out about a picture before a pixel of the result is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tecu.lowlight.denoise import smoothing_share
from tecu.lowlight.model import DARKEST, HEADROOM
from tecu.lowlight.tone import Tone

Pixels = np.ndarray[Any, Any]

NEARLY_BLACK = 8.0 / 255.0


@dataclass(frozen=True)
class Exposure:
    """Illumination ``I = slope V + offset`` (maps on the grid), tone, amplification on the grid, noise of the input.

    ``result = tone.curve(O / I^tone.exponent)``, ``V = max(R, G, B)``, ``I`` kept in ``[V / headroom, 1]``.
    """

    slope: Pixels
    offset: Pixels
    tone: Tone
    amplification: Pixels
    noise: float = 0.0
    headroom: float = HEADROOM

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
            ),
            np.asarray(mix(self.amplification, other.amplification), dtype=np.float32),
            float(mix(self.noise, other.noise)),
            float(mix(self.headroom, other.headroom)),
        )

    def smoothing(self) -> tuple[Pixels, Pixels]:
        """Noise in the result, and how much of it to smooth away: maps on the grid."""
        noise = (self.noise * self.amplification).astype(np.float32)
        return noise, smoothing_share(noise, self.amplification).astype(np.float32)


def near_black(brightest: Pixels, exponent: float) -> tuple[Pixels, Pixels]:
    """``(grey, dim)``: the colour a nearly black pixel loses, and the part of its value it keeps, under a strong gain.

    With ``t = clip(1 - V / .03, 0, 1)`` they are ``t^2`` and ``1 - .9 t^3``. Cameras clip near black, and not all
    channels alike: a gain of 20 would turn that into a colour cast, and the steps between 0, 1 and 2 into speckles.
    """
    t, strength = np.clip(1.0 - brightest / NEARLY_BLACK, 0.0, 1.0), min(exponent / 0.5, 1.0)
    return np.asarray(strength * t * t), np.asarray(1.0 - 0.9 * strength * t * t * t)


def illumination_at(brightest: Pixels, slope: Pixels, offset: Pixels, headroom: float = HEADROOM) -> Pixels:
    """``clip(slope V + offset, V / headroom, 1)``: a pixel brighter than ``headroom`` is not raised at all."""
    lowest = np.clip(brightest / np.float32(headroom), DARKEST, 1.0)
    return np.asarray(np.clip(slope * brightest + offset, lowest, 1.0))


def amplification(brightest: Pixels, light: Pixels, tone: Tone) -> Pixels:
    """By how much the tone lifts each cell of the grid: result over input, one 8-bit step added to both."""
    raised = np.clip(brightest * light ** np.float32(-tone.exponent), 0.0, 1.0)
    result = np.interp(raised, np.linspace(0.0, 1.0, len(tone.curve)), tone.curve)
    return np.asarray((result + 1 / 255) / (brightest + 1 / 255), dtype=np.float32)
