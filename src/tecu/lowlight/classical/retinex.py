"""How SRIE, WVM, JIEP and LIME run on the engine, and how they use what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tecu
from tecu import stop
from tecu.lowlight.classical.pictures import Picture, enlarged, shrunk, with_gain
from tecu.lowlight.classical.projected_cg import ProjectedCG

EXPONENT = 1.0 / 2.2  # the light is brightened by this power, in all three papers
DARK = 1.0 / 255.0  # an 8-bit step; darker light is not told apart from it
MOST_PIXELS = 2_000_000  # of the grid on which a light is solved for; time and memory of a large photo stay bounded


def embedded(eta: float, *, multigrid: bool = True, steps: int = 4) -> tecu.Embed:
    """The update of a layer: projected CG until the error criterion with ``c = 0.49 eta`` holds."""
    return tecu.Embed(
        ProjectedCG(steps, multigrid=multigrid), eta=eta, c=0.49 * eta, max_inner=12, at_cap="keep_if_covered"
    )


def run(
    problem: tecu.Problem,
    updates: Mapping[str, Any],
    start: Mapping[str, Picture],
    sweeps: int,
    schedule: Any = "cyclic",
) -> tecu.Result:
    """``sweeps`` sweeps from ``start``, moved into the blocks' sets where it has to be."""
    solver = tecu.Solver(problem, updates, schedule)
    solver.warns_of_rest = False  # in a picture without any contrast all layers are where they belong from the start
    return solver.run(problem.project(start), stop=stop.MaxIter(sweeps))


def reweighted(
    problem: Callable[[Picture, Picture], tecu.Problem],
    updates: Mapping[str, Any],
    start: Mapping[str, Picture],
    rounds: int,
    sweeps: int,
) -> tecu.Result:
    """``rounds`` runs of one sweep, the last of ``sweeps``; ``problem(I, R)`` has the weights of the layers so far.

    Weights that move with the layers are outside the engine's model, frozen ones are inside: each round has a
    certificate of its own, which covers that round. The last one is returned.
    """
    layers = dict(start)
    for left in reversed(range(rounds)):
        result = run(problem(layers["I"], layers["R"]), updates, layers, 1 if left else sweeps)
        layers = dict(result.z)
    return result


def light_of(value: Picture, find: Callable[[Picture], Picture]) -> Picture:
    """``find(value)``; for a photo of more than two megapixels on a coarser grid, linear between its cells."""
    shape = (value.shape[0], value.shape[1])
    return enlarged(find(shrunk(value, MOST_PIXELS)), shape)


def relit(picture: Picture, value: Picture, light: Picture, exponent: float = EXPONENT) -> Picture:
    """``R I^exponent = S I^(exponent - 1)`` with ``S <= I <= 1``, the gain the same for all channels."""
    light = np.clip(np.maximum(light, value), DARK, 1.0)
    return with_gain(picture, light ** np.float32(exponent - 1.0))
