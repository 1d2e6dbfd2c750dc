"""From an exposure to the pixels of the result, strip by strip.

Pictures of 8 or 16 bits are rendered by tables: large ones by compiled kernels (:mod:`tecu.lowlight.kernels`), small
ones by NumPy (:mod:`tecu.lowlight.tables`): what has to be compiled, if only once, is not for a thumbnail to wait for.
Both give the same bytes, so many small pictures are left to the kernels, too. Floats are rendered by the formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight import denoise, tables
from tecu.lowlight.exposure import Exposure, illumination_at, near_black
from tecu.lowlight.grid import LARGE, enlarge, whitepoint

Pixels = np.ndarray[Any, Any]

STRIP = 64  # rows at a time
MANY = 16_000_000  # pixels of small pictures by NumPy, some seconds: there are more to come, and the kernels will pay
_by_numpy = 0  # pixels so far


def render(pixels: Pixels, exposure: Exposure, smooth: bool, compiled: bool | None = None) -> Pixels:
    """The result for ``pixels`` (``h x w x c``, ``c`` 1 or 3), of their dtype; ``smooth`` switches the denoising on."""
    noise, share = exposure.smoothing()
    smooth = smooth and bool(np.any(share > 0.0))
    whole = pixels.dtype in (np.uint8, np.uint16)
    if whole and (_pays(pixels) if compiled is None else compiled):
        from tecu.lowlight import kernels

        return kernels.render(pixels, exposure, (noise, share) if smooth else None)
    out = np.empty_like(pixels)
    height, shape = pixels.shape[0], pixels.shape[:2]
    margin = denoise.MARGIN if smooth else 0
    parts = tables.scene(exposure, shape, pixels.dtype) if whole else ()
    for top in range(0, height, STRIP):
        bottom = min(top + STRIP, height)
        rows = slice(max(top - margin, 0), min(bottom + margin, height))
        inner = slice(top - rows.start, bottom - rows.start)
        strip = (
            tables.toned(pixels[rows], parts, shape, rows) if whole else _curved(pixels[rows], exposure, shape, rows)
        )
        if smooth:
            local = (enlarge(noise, shape, rows), enlarge(share, shape, rows))
            strip = _smoothed_levels(strip, *local) if whole else denoise.smoothed(strip, *local)
        out[top:bottom] = strip[inner] if whole else np.clip(strip[inner], 0.0, 1.0)
    return out


def _pays(pixels: Pixels) -> bool:
    """Whether to load the kernels: for a large picture, or when there have been many small ones."""
    global _by_numpy
    size = pixels.shape[0] * pixels.shape[1]
    if size >= LARGE or _by_numpy >= MANY:
        return True
    _by_numpy += size
    return False


def _smoothed_levels(strip: Pixels, noise: Pixels, share: Pixels) -> Pixels:
    """A strip of 8 or 16 bits smoothed; white only where it was white already."""
    white, old = whitepoint(strip.dtype), strip.astype(np.float32)
    unit = np.float32(1.0) / np.float32(1.0 / white)
    mixed = np.maximum(denoise.smoothed(old, noise, share, white), 0)
    return (np.minimum(mixed, np.maximum(old, unit - 1)) + np.float32(0.5)).astype(strip.dtype)


def _curved(pixels: Pixels, exposure: Exposure, shape: tuple[int, int], rows: slice) -> Pixels:
    """``curve(O gain)`` of floats, as float32 (float64 for a float64 picture)."""
    kind: Any = np.float64 if pixels.dtype == np.float64 else np.float32
    observed = exposure.bare(np.asarray(pixels, dtype=kind))
    brightest = observed.max(axis=-1)
    slope, offset = (enlarge(plane, shape, rows) for plane in (exposure.slope, exposure.offset))
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
