r"""LIME: low-light image enhancement via illumination map estimation (Guo, Li and Ling, 2017).

``T0 = max(R, G, B)``; ``T`` minimises ``1/2 ||T - T0||^2 + alpha/2 sum_d <w_d, (grad_d T)^2>`` with
``w_d = W_d / (|grad_d T0| + eps)`` and ``W_d = sum G / (|G * grad_d T0| + eps)`` (the paper's third weighting,
``G`` a Gaussian window); the result is ``O / T^gamma``. This is the paper's fast solver: one quadratic problem,
given to the engine with a single block and solved by multigrid-preconditioned CG. The denoising by BM3D that the
paper adds is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tecu
from tecu import terms
from tecu.lowlight.classical.layers import Layers, Prior
from tecu.lowlight.classical.pictures import Picture, brightest, checked, finished, with_gain
from tecu.lowlight.classical.projected_cg import ProjectedCG
from tecu.lowlight.classical.retinex import light_of, run

ALPHA, GAMMA, SIGMA, WINDOW = 0.15, 0.8, 2.0, 2  # the paper's; a window of 5 x 5
EPS = 1e-3
ETA = 1e-2
STEPS = 8  # of CG a sweep
SMALLEST_GAIN_LIGHT = 1e-2  # the light is taken to be at least this: black pixels must not be divided by zero


def enhance(image: Any, *, alpha: float = ALPHA, gamma: float = GAMMA) -> Picture:
    """``O / T^gamma``.

    >>> import numpy as np
    >>> bool(np.all(enhance(np.full((4, 5), 0.2)) > 0.2))
    True
    """
    picture = checked(image, "lime")
    light = light_of(brightest(picture), lambda value: decompose(value, alpha).z["I"])
    light = np.clip(light, SMALLEST_GAIN_LIGHT, 1.0)
    return finished(with_gain(picture, light ** np.float32(-gamma)), image)


def weights(light: Picture, alpha: float = ALPHA) -> tuple[Picture, Picture]:
    """``alpha w_d`` for the differences along rows and along columns."""
    from scipy.ndimage import gaussian_filter

    found = []
    for axis in (1, 0):
        slope = np.diff(light, axis=axis)
        if slope.size:
            around = np.abs(gaussian_filter(slope, SIGMA, truncate=WINDOW / SIGMA)) + np.float32(EPS)
            slope = np.float32(alpha) / (around * (np.abs(slope) + np.float32(EPS)))
        found.append(slope)
    return found[0], found[1]


def problem(light: Picture, alpha: float = ALPHA) -> tecu.Problem:
    """The fast model as a problem with the block ``"I"``."""
    right, down = weights(light, alpha)
    return tecu.Problem(Layers(light, Prior(right, down)), {"I": terms.Zero()})


def decompose(light: Picture, alpha: float = ALPHA, *, sweeps: int = 2) -> tecu.Result:
    """Run the engine from ``T0``; ``result.z["I"]`` is ``T``."""
    update = tecu.Embed(ProjectedCG(STEPS), eta=ETA, c=0.49 * ETA, max_inner=1, at_cap="keep_if_covered")
    return run(problem(light, alpha), {"I": update}, {"I": light}, sweeps)
