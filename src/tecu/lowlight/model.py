r"""The Retinex decomposition ``O = I R`` as a problem for the solver, in three settings.

    min  1/2 ||O - I R||^2 + alpha/2 ||grad I||^2 + beta/2 ||I - N||^2
    over O / headroom <= I <= 1,  0 <= R <= 1

``N`` is the network's illumination of the picture, computed once. Two points differ from the paper's print: the set
for I there is ``[0, O]``, which with ``R <= 1`` leaves only ``I = O``; and without the anchor ``N`` (``beta = 0``) the
objective is zero at a constant ``I``, so that its result is that of stopping early. The printed model and the one
without a network are kept under their names, for the comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tecu import couplings, stop, strategies, terms
from tecu.certificate import Certificate
from tecu.history import History
from tecu.lowlight.fixed import DARKEST
from tecu.problem import Problem
from tecu.solver import Solver
from tecu.state import Result
from tecu.updates import Embed, Proximal

Pixels = np.ndarray[Any, Any]

ALPHA, BETA = 1.0, 1.0  # for a grid whose longest side is 112
ETA_I, ETA_R = 0.2, 1e-4  # a larger eta_R freezes R at its start; a smaller eta_I needs more inner steps
HEADROOM = 0.97  # I >= O / 0.97 keeps R, and with it the result, off the white point
MAX_OUTER, MAX_INNER = 8, 10
STILL = 1e-2
"""The relative change at which to stop. Further steps change a result by up to 0.3 of 255 levels in the mean, single
pixels by up to four."""


@dataclass(frozen=True)
class Decomposition:
    """``I``, ``R`` and the record of how they were found."""

    illumination: Pixels
    reflectance: Pixels
    certificate: Certificate
    history: History


def retinex_problem(
    observed: Pixels, anchor: Pixels | None = None, *, alpha: float = ALPHA, beta: float = BETA
) -> Problem:
    """The problem above for ``observed``, ``h x w`` in [0, 1]; without an anchor ``beta`` is 0.

    >>> import numpy as np
    >>> problem = retinex_problem(np.full((4, 4), 0.25), anchor=np.full((4, 4), 0.5))
    >>> problem.blocks
    ('I', 'R')
    """
    lower = np.clip(observed / HEADROOM, DARKEST, 1.0).astype(observed.dtype)
    coupling = couplings.Retinex(observed, alpha=alpha, beta=0.0 if anchor is None else beta, anchor=anchor)
    return Problem(coupling, {"I": terms.Box(lower, 1.0), "R": terms.Box(0.0, 1.0)})


def anchored(observed: Pixels, proposal: Pixels) -> tuple[Solver, dict[str, Pixels]]:
    """The default: the network's illumination is part of the objective, and proposed at the first visit."""
    problem = retinex_problem(observed, proposal)
    network = strategies.first_visit(_constant(proposal))
    light = Embed(network, strategies.FISTA(), eta=ETA_I, c=0.49 * ETA_I, max_inner=MAX_INNER)
    return Solver(problem, {"I": light, "R": Proximal(eta=ETA_R)}), _start(problem, observed, proposal)


def paper(observed: Pixels, proposal: Pixels) -> tuple[Solver, dict[str, Pixels]]:
    """As printed, with the corrected set: the network proposes at every visit, prox-gradient steps follow."""
    problem = retinex_problem(observed)
    light = Embed(_constant(proposal), strategies.ProxGradient(), eta=ETA_I, c=0.49 * ETA_I, max_inner=400)
    return Solver(problem, {"I": light, "R": Proximal(eta=ETA_R)}), _start(problem, observed)


def pam(observed: Pixels, proposal: Pixels | None = None) -> tuple[Solver, dict[str, Pixels]]:
    """No network: both blocks to their minimum, the one of I within the criterion."""
    problem = retinex_problem(observed)
    light = Embed(strategies.FISTA(), eta=ETA_I, c=0.01 * ETA_I, max_inner=400)
    return Solver(problem, {"I": light, "R": Proximal(eta=ETA_R)}), _start(problem, observed)


MODELS: dict[str, Callable[[Pixels, Pixels], tuple[Solver, dict[str, Pixels]]]] = {
    "tecu": anchored,
    "anchored": anchored,
    "paper": paper,
    "pam": pam,
}


def decompose(observed: Pixels, proposal: Pixels, method: str = "tecu") -> Decomposition:
    """Decompose ``observed`` (``h x w`` in [0, 1]) with the network's ``proposal`` by the method of that name.

    >>> import numpy as np
    >>> parts = decompose(np.full((8, 8), 0.25), np.full((8, 8), 0.5))
    >>> bool(np.abs(parts.illumination * parts.reflectance - 0.25).max() < 1e-3), parts.certificate.holds
    (True, True)
    """
    result = solve(observed, proposal, method)
    return Decomposition(result.z["I"], result.z["R"], result.certificate, result.history)


def solve(
    observed: Pixels, proposal: Pixels, method: str = "tecu", *, max_iter: int = MAX_OUTER, tol: float | None = None
) -> Result:
    """Run the solver of that method until the blocks change by less than ``tol`` or ``max_iter`` is reached."""
    solver, start = MODELS[method](observed, proposal)
    solver.warns_of_rest = False  # on a black or a white picture a block rightly stays where it is
    return solver.run(start, stop=_rule(method, max_iter, tol))


def illumination(observed: Pixels, proposal: Pixels, method: str = "tecu") -> Pixels:
    """The ``I`` of :func:`decompose`, without the tests after a run that only the certificate needs.

    >>> import numpy as np
    >>> dark, guess = np.full((8, 8), 0.25), np.full((8, 8), 0.5)
    >>> bool(np.array_equal(illumination(dark, guess), decompose(dark, guess).illumination))
    True
    """
    solver, start = MODELS[method](observed, proposal)
    rule, light = _rule(method), start["I"]
    for state in solver.iterate(start):
        light = state.z["I"]
        if rule.check(state, solver.problem) is not None:
            break
    return light


def _rule(method: str, max_iter: int = MAX_OUTER, tol: float | None = None) -> stop.Rule:
    still = STILL if MODELS[method] is anchored else STILL / 10  # the others move on long after they move little
    return stop.RelativeChange(still if tol is None else tol) | stop.MaxIter(max_iter)


def _start(problem: Problem, observed: Pixels, light: Pixels | None = None) -> dict[str, Pixels]:
    """``I = O, R = 1``, or with a first guess of the light ``R = O / I``, moved into the sets.

    Where I is small, ``eta_R`` outweighs ``I^2`` and R leaves its start slowly: it should be a good one.
    """
    guess = observed if light is None else light
    reflectance = np.ones_like(observed) if light is None else observed / np.maximum(light, DARKEST)
    start: dict[str, Pixels] = problem.project({"I": guess, "R": reflectance})
    return start


def _constant(proposal: Pixels) -> Callable[[Pixels], Pixels]:
    """The network as a function of the block: it looks at the picture, not at the current ``I``."""

    def network(u: Pixels) -> Pixels:
        return proposal

    return network
