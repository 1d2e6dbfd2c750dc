r"""WVM: a weighted variational model for reflectance and illumination (Fu, Zeng, Huang, Zhang and Ding, 2016).

``min 1/2 ||r + l - s||^2 + c1 ||e^r grad r||_1 + c2/2 ||e^l grad l||^2`` with ``r <= 0``; ``s = log S`` on 0 to
255. The weights ``e^r, e^l`` undo what the logarithm does to slopes: dark regions would be over-smoothed without
them. The result is ``R L^(1/2.2)``.

There are a few rounds with frozen weights, each with a certificate of its own, which covers that round. Freezing
replaces ``||e^r grad r||_1`` by ``1/2 <e^r / (|grad r| + eps), (grad r)^2>``, the usual majorant; the paper splits
instead. As in SRIE, ``l >= s`` is imposed on the result.
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

C1, C2 = 0.01, 0.1  # the paper's
WHITE = 255.0
EPS = 1e-2  # of the majorant, in the unit of r
ROUNDS, SWEEPS = 2, 2


def enhance(image: Any) -> Picture:
    """``R L^(1/2.2)``.

    >>> import numpy as np
    >>> bool(np.all(enhance(np.full((4, 5), 0.2)) > 0.2))
    True
    """
    picture = checked(image, "wvm")
    value = brightest(picture)
    light = light_of(value, lambda plane: np.exp(decompose(plane).z["I"]) / np.float32(WHITE))
    return finished(relit(picture, value, light), image)


def problem(logs: Picture, light: Picture, reflectance: Picture) -> tecu.Problem:
    """The model with the weights of ``light`` and ``reflectance`` (logarithms) frozen; blocks ``"I"`` and ``"R"``."""
    smooth = [C2 * np.square(np.exp(between(light, axis))) for axis in (1, 0)]
    rough = [
        C1 * np.exp(between(reflectance, axis)) / (np.abs(np.diff(reflectance, axis=axis)) + np.float32(EPS))
        for axis in (1, 0)
    ]
    coupling = Layers(logs, Prior(smooth[0], smooth[1]), Prior(rough[0], rough[1]), logarithmic=True)
    return tecu.Problem(coupling, {"I": terms.Box(0.0, float(np.log(WHITE))), "R": terms.Box(-np.inf, 0.0)})


def between(plane: Picture, axis: int) -> Picture:
    """The mean of each two neighbours: the layer where the differences live."""
    first, second = (plane[:, :-1], plane[:, 1:]) if axis == 1 else (plane[:-1], plane[1:])
    return np.asarray(np.float32(0.5) * (first + second))


def decompose(value: Picture, *, rounds: int = ROUNDS, sweeps: int = SWEEPS) -> tecu.Result:
    """``rounds`` runs of one sweep, the last of ``sweeps``; ``result.z["I"]`` is ``l``, ``result.z["R"]`` is ``r``."""
    logs = np.log(np.maximum(value, np.float32(DARK)) * np.float32(WHITE))
    updates = {"I": embedded(0.5), "R": embedded(0.5, multigrid=False, steps=2)}
    return reweighted(partial(problem, logs), updates, {"I": logs, "R": np.zeros_like(logs)}, rounds, sweeps)
