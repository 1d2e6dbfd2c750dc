"""Known methods as settings of the solver.

| method | update of every block | reference |
|---|---|---|
| :func:`pam` | proximal, exact | Attouch, Bolte, Redont, Soubeyran 2010 |
| :func:`palm` | prox-linear | Bolte, Sabach, Teboulle 2014 |
| :func:`ipalm` | prox-linear, inertial | Pock, Sabach 2016 |
| :func:`bcu` | prox-linear, Nesterov's weights | Xu, Yin 2017 |
"""

from __future__ import annotations

from tecu.problem import Problem
from tecu.solver import Solver
from tecu.updates import Inertial, Nesterov, Proximal, ProxLinear


def pam(problem: Problem, eta: float = 1.0) -> Solver:
    """Proximal alternating minimisation: every block exactly, ``eta/2 ||u - previous||^2`` added."""
    return Solver(problem, Proximal(eta))


def palm(problem: Problem, step_factor: float = 1.1) -> Solver:
    """Proximal alternating linearised minimisation: a gradient-prox step a block, ``gamma = step_factor L``."""
    return Solver(problem, ProxLinear(step_factor))


def ipalm(
    problem: Problem,
    alpha: float = 0.2,
    beta: float = 0.2,
    *,
    step_factor: float = 1.1,
    safeguard: bool = True,
) -> Solver:
    """Inertial PALM: steps from ``u + alpha (u - w)`` with the gradient at ``u + beta (u - w)``.

    ``safeguard=False`` is the published method; by default a step that does not lower the Lyapunov function enough is
    redone without inertia.
    """
    return Solver(problem, ProxLinear(step_factor, Inertial(alpha, beta), safeguard))


def bcu(problem: Problem, *, step_factor: float = 1.1, bound: float = 0.9999) -> Solver:
    """Block coordinate update with extrapolation by Nesterov's weights, redone without where the objective rises."""
    return Solver(problem, ProxLinear(step_factor, Nesterov(bound)))
