"""From an exposure to the pixels of the result, strip by strip.

Small pictures are rendered by NumPy, large ones of 8 or 16 bits by compiled kernels (:mod:`tecu.lowlight.kernels`):
the compiler takes longer to load than NumPy needs for half a megapixel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight import denoise
from tecu.lowlight.exposure import Exposure, illumination_at, near_black
from tecu.lowlight.grid import LARGE, enlarge, whitepoint

Pixels = np.ndarray[Any, Any]

STRIP = 64  # rows at a time


def render(pixels: Pixels, exposure: Exposure, smooth: bool, compiled: bool | None = None) -> Pixels:
    """The result for ``pixels`` (``h x w x c``, ``c`` 1 or 3), of their dtype; ``smooth`` switches the denoising on."""
    if compiled is None:
        compiled = pixels.shape[0] * pixels.shape[1] >= LARGE
    noise, share = exposure.smoothing()
    smooth = smooth and bool(np.any(share > 0.0))
    if compiled and pixels.dtype in (np.uint8, np.uint16):
        from tecu.lowlight import kernels

        return kernels.render(pixels, exposure, (noise, share) if smooth else None)
    out = np.empty_like(pixels)
    margin = denoise.MARGIN if smooth else 0
    height, shape = pixels.shape[0], pixels.shape[:2]
    for top in range(0, height, STRIP):
        bottom = min(top + STRIP, height)
        rows = slice(max(top - margin, 0), min(bottom + margin, height))
        strip = _curved(
            pixels[rows], exposure, enlarge(exposure.slope, shape, rows), enlarge(exposure.offset, shape, rows)
        )
        inner = slice(top - rows.start, bottom - rows.start)
        if smooth:
            strip = denoise.smoothed(strip, enlarge(noise, shape, rows), enlarge(share, shape, rows))
        out[top:bottom] = finished(strip[inner], pixels[top:bottom])
    return out


def _curved(pixels: Pixels, exposure: Exposure, slope: Pixels, offset: Pixels) -> Pixels:
    """``curve(O gain)`` as float32 (float64 for a float64 picture)."""
    kind: Any = np.float64 if pixels.dtype == np.float64 else np.float32
    observed: Pixels = np.asarray(pixels, dtype=kind) * kind(1.0 / whitepoint(pixels.dtype))
    observed = exposure.bare(observed)
    brightest = observed.max(axis=-1)
    light = illumination_at(brightest, slope, offset, exposure.headroom)
    gain = exposure.tone.gain(brightest, light, exposure.headroom)
    black = near_black(brightest, exposure.tone.exponent, exposure.highlights)
    grey, dim = (part.astype(kind)[..., None] for part in black)
    if np.any(dim < 1.0):
        observed = dim * (observed + grey * (brightest[..., None] - observed))
    raised = np.clip(observed * gain[..., None], 0.0, 1.0)
    curve = exposure.tone.curve
    return np.asarray(np.interp(raised, np.linspace(0.0, 1.0, len(curve)), curve), dtype=kind)


def finished(result: Pixels, pixels: Pixels) -> Pixels:
    """``result`` in the dtype of ``pixels``; white only where the picture was white already."""
    white = whitepoint(pixels.dtype)
    if pixels.dtype.kind != "u":
        return np.clip(result, 0.0, 1.0).astype(pixels.dtype)
    rounded = np.clip(np.rint(result * white), 0.0, white)
    return np.where(pixels < white, np.minimum(rounded, white - 1.0), rounded).astype(pixels.dtype)
