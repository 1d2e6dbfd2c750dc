r"""GOLW: globally optimised linear windowed tone mapping (Shan, Jia and Brown, 2010).

In each 3 x 3 window ``w_i`` the result ``U`` is nearly a linear function of the input ``L = log max(R, G, B)``:
``min over U, p, q of sum_i ( sum_{j in w_i} (U_j - p_i L_j - q_i)^2 + eps c_i^-2 (p_i - c_i)^2 )``. The guidance
``c_i > 0`` says by how much contrast is to be scaled: here ``c_i = kappa (sigma_i / mean(sigma) + delta)^-beta``,
less where the window's deviation ``sigma_i`` is large. ``p`` and ``q`` are eliminated; what remains is one sparse
system for ``U``, solved by preconditioned CG. The exponents are our choice for dark photos.

It is solved on at most 40 000 cells; the windows' ``p`` and ``q`` are then applied to the picture itself, which
keeps its detail. ``U`` is free up to a constant: its 99.5th percentile becomes white.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.lowlight.classical.multigrid import Multigrid, Stencil
from tecu.lowlight.classical.pictures import Picture, brightest, checked, enlarged, finished, shrunk, with_value
from tecu.lowlight.classical.projected_cg import conjugate_gradients

EPS, KAPPA, BETA, DELTA = 0.1, 0.5, 0.2, 0.5
WINDOW = 3
COUNT = WINDOW * WINDOW
WHITE = 0.995
DARK = 1.0 / 255.0
CELLS = 40_000
STEPS = 20


def enhance(image: Any) -> Picture:
    """``exp(U)``, the gain the same for all channels.

    >>> import numpy as np
    >>> dark = np.linspace(0.02, 0.2, 48).reshape(6, 8)
    >>> bool(enhance(dark).mean() > 1.5 * dark.mean())
    True
    """
    picture = checked(image, "golw")
    value = np.maximum(brightest(picture), np.float32(DARK))
    logs = np.log(value)
    if not logs.max() - logs.min() > 1e-6:  # one tone only: there is nothing to map
        return np.array(image)
    small = shrunk(logs, CELLS).astype(np.float64)
    slope, offset = (
        box_mean(plane).astype(np.float32) for plane in windows(small, tone_mapped(small), guidance(small))
    )
    mapped = enlarged(slope, value.shape) * logs + enlarged(offset, value.shape)
    new = np.exp(mapped - np.float32(np.quantile(mapped, WHITE)))
    return finished(with_value(picture, value, new), image)


def box_mean(plane: Picture) -> Picture:
    """The mean over the 3 x 3 window of each pixel, edges mirrored: a pixel is in as many windows as any other."""
    from scipy.ndimage import uniform_filter

    return np.asarray(uniform_filter(plane, WINDOW, mode="reflect"))


def guidance(logs: Picture) -> Picture:
    """``c``."""
    deviation = np.sqrt(np.maximum(box_mean(logs * logs) - box_mean(logs) ** 2, 0.0))
    return np.asarray(KAPPA * (deviation / max(float(deviation.mean()), 1e-12) + DELTA) ** -BETA)


def windows(logs: Picture, mapped: Picture, c: Picture) -> tuple[Picture, Picture]:
    """``p = (n cov + eps / c) / (n var + eps / c^2)`` and ``q = mean U - p mean L`` of each window, given ``U``."""
    slope = (COUNT * _covariance(logs, mapped) + EPS / c) / (COUNT * _covariance(logs, logs) + EPS / c**2)
    return slope, box_mean(mapped) - slope * box_mean(logs)


def _covariance(first: Picture, second: Picture) -> Picture:
    return np.asarray(box_mean(first * second) - box_mean(first) * box_mean(second))


class WindowSystem:
    """``A U = U - mean over the windows of (p_U L + q_U)``, ``p_U`` and ``q_U`` without their guidance; symmetric."""

    def __init__(self, logs: Picture, c: Picture) -> None:
        self.logs, self.mean = logs, box_mean(logs)
        self.total = COUNT * (box_mean(logs * logs) - self.mean**2) + EPS / c**2

    def apply(self, u: Picture) -> Picture:
        """``A u``."""
        mean = box_mean(u)
        slope = COUNT * (box_mean(self.logs * u) - self.mean * mean) / self.total
        return np.asarray(u - self._spread(slope, mean - slope * self.mean))

    def right_side(self, c: Picture) -> Picture:
        """What the guidance contributes."""
        slope = EPS / c / self.total
        return self._spread(slope, -slope * self.mean)

    def _spread(self, slope: Picture, offset: Picture) -> Picture:
        return np.asarray(self.logs * box_mean(slope) + box_mean(offset))


def tone_mapped(logs: Picture) -> Picture:
    """``U``, by CG from ``kappa L``; constants are not determined and stay as they are."""
    c = guidance(logs)
    system = WindowSystem(logs, c)
    start = KAPPA * logs
    # For slow variations A is a weak Laplacian: a stencil with its weight preconditions it.
    height, width = logs.shape
    stencil = Stencil(np.full(logs.shape, 1e-4), np.full((height, width - 1), 1.0), np.full((height - 1, width), 1.0))
    return start + conjugate_gradients(
        system, system.right_side(c) - system.apply(start), Multigrid(stencil).solve, STEPS
    )
