r"""JIEP: a joint intrinsic-extrinsic prior model for Retinex (Cai, Xu, Guo, Jia, Hu and Tao, 2017).

``min 1/2 ||I R - S||^2 + alpha sum_d |grad_d I / (mean_W grad_d I + eps)| + beta ||grad R||_1 + lambda/2 ||I - B||^2``,
``0 <= R <= 1``. The second term is the *shape prior*: a slope counts by its ratio to the mean slope of the window
``W`` around it, so that structure passes and texture does not. ``B`` is the *bright channel*, the largest value
around. The result is ``R I^(1/2.2)``.

The paper solves by re-weighting: ``|x| <= (x^2 / (|y| + eps)) / 2 + ...`` with ``y`` the slope of the round before.
So there are a few rounds, each with new weights and a certificate of its own, which covers that round.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tecu
from tecu import terms
from tecu.lowlight.classical.layers import Layers, Prior
from tecu.lowlight.classical.pictures import Picture, brightest, checked, finished
from tecu.lowlight.classical.retinex import DARK, embedded, light_of, relit, reweighted

ALPHA, BETA, LAMBDA = 1e-3, 1e-4, 0.25  # the paper's
RADIUS = 3  # of the windows
EPS = 1e-3
ROUNDS, SWEEPS = 2, 2


def enhance(image: Any) -> Picture:
    """``R I^(1/2.2)``.

    >>> import numpy as np
    >>> bool(np.all(enhance(np.full((4, 5), 0.2)) > 0.2))
    True
    """
    picture = checked(image, "jiep")
    value = brightest(picture)
    light = light_of(value, lambda plane: decompose(plane).z["I"])
    return finished(relit(picture, value, light), image)


def bright_channel(value: Picture) -> Picture:
    """``B``: the largest value in the window."""
    from scipy.ndimage import maximum_filter

    return np.asarray(maximum_filter(value, 2 * RADIUS + 1, mode="nearest"))


def shape_weights(light: Picture) -> tuple[Picture, Picture]:
    """``alpha / (|mean_W grad_d I| |grad_d I| + eps)`` for rows and columns."""
    from scipy.ndimage import uniform_filter

    found = []
    for axis in (1, 0):
        slope = np.diff(light, axis=axis)
        around = uniform_filter(slope, 2 * RADIUS + 1, mode="nearest") if slope.size else slope
        found.append(np.float32(ALPHA) / (np.abs(around * slope) + np.float32(EPS)))
    return found[0], found[1]


def texture_weights(reflectance: Picture) -> tuple[Picture, Picture]:
    """``beta / (|grad_d R| + eps)`` for rows and columns."""
    found = [np.float32(BETA) / (np.abs(np.diff(reflectance, axis=axis)) + np.float32(EPS)) for axis in (1, 0)]
    return found[0], found[1]


def problem(value: Picture, light: Picture, reflectance: Picture) -> tecu.Problem:
    """The model with the weights of ``light`` and ``reflectance`` frozen; blocks ``"I"`` and ``"R"``."""
    prior = Prior(*shape_weights(light), LAMBDA, bright_channel(value))
    coupling = Layers(value, prior, Prior(*texture_weights(reflectance)))
    return tecu.Problem(coupling, {"I": terms.Box(DARK, 1.0), "R": terms.Box(0.0, 1.0)})


def decompose(value: Picture, *, rounds: int = ROUNDS, sweeps: int = SWEEPS) -> tecu.Result:
    """``rounds`` runs of one sweep, the last of ``sweeps``; ``result.z`` has ``I`` and ``R``."""
    value = np.maximum(value, np.float32(DARK))
    updates = {"I": embedded(0.1), "R": embedded(1e-3)}
    return reweighted(partial(problem, value), updates, {"I": value, "R": np.ones_like(value)}, rounds, sweeps)
