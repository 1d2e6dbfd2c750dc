"""Extrapolation rules of prox-linear updates.

With ``w`` the block's value before its latest visit, a step is taken from ``center = u + alpha (u - w)`` with the
gradient at ``source = u + beta (u - w)``:  ``u+ = prox(center - grad H(source) / gamma)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from tecu.protocols import Memory
from tecu.settings import is_number, make_plain


@dataclass(frozen=True)
class Plan:
    """How one extrapolated step is to be made, and what the Lyapunov function is to hold for it."""

    alpha: float
    beta: float
    gamma: float
    weight: float  # of ||move||^2 in the Lyapunov function
    descent: float  # the fall of Phi, per ||move||^2, that the safeguard asks for


class Extrapolation(Protocol):
    """A rule that plans the steps of one block."""

    def plan(self, memory: Memory, lipschitz: float, step_factor: float) -> Plan:
        """The plan of the next step; ``memory`` carries what the rule must remember."""
        ...


@dataclass(frozen=True)
class Inertial:
    r"""Constant ``alpha`` and ``beta``: iPALM (Pock and Sabach 2016).

    With ``delta = L (alpha + beta) / (1 - eps - 2 alpha)`` and
    ``gamma = ((1 + eps) delta + (1 + beta) L) / (1 - alpha)`` the function ``Psi + delta/2 ||move||^2`` falls by
    ``eps delta / 2 ||move||^2``, convex or not. ``delta`` never decreases, so that it also covers a growing ``L``. A
    constant found by back-tracking goes down by a percent a step only: a coupling that knows ``L`` should say it.
    """

    alpha: float = 0.2
    beta: float = 0.2
    eps: float = 0.05

    def __post_init__(self) -> None:
        numbers = all(map(is_number, (self.alpha, self.beta, self.eps)))
        if not (numbers and 0 < self.eps < 1 and 0 <= self.alpha < (1 - self.eps) / 2 and 0 <= self.beta <= 1):
            raise ValueError(
                f"Inertial needs 0 <= alpha < (1 - eps)/2 and 0 <= beta <= 1 for its convergence theorem, "
                f"got alpha={self.alpha!r}, beta={self.beta!r}, eps={self.eps!r}"
            )
        make_plain(self, "alpha", "beta", "eps")

    def plan(self, memory: Memory, lipschitz: float, step_factor: float) -> Plan:
        """The published step size, at least ``step_factor L``."""
        delta = lipschitz * (self.alpha + self.beta) / (1 - self.eps - 2 * self.alpha)
        delta = memory["inertia"] = max(delta, float(memory.get("inertia", 0.0)))
        gamma = ((1 + self.eps) * delta + (1 + self.beta) * lipschitz) / (1 - self.alpha)
        gamma = max(gamma, step_factor * lipschitz)
        descent = ((1 - self.alpha) * gamma - (1 + self.beta) * lipschitz - delta) / 2
        return Plan(self.alpha, self.beta, gamma, delta / 2, descent)


@dataclass(frozen=True)
class Nesterov:
    r"""Growing weights ``omega = min((t - 1) / t+, bound sqrt(L_old / L))``: BCU (Xu and Yin 2017).

    ``t+ = (1 + sqrt(1 + 4 t^2)) / 2`` and ``alpha = beta = omega``. The step is kept only if it lowers the objective
    by ``1e-3 gamma ||move||^2``, and otherwise redone without extrapolation, as published.
    """

    bound: float = 0.9999

    def __post_init__(self) -> None:
        if not (is_number(self.bound) and 0 <= self.bound < 1):
            raise ValueError(f"Nesterov needs 0 <= bound < 1, got bound={self.bound!r}")
        make_plain(self, "bound")

    def plan(self, memory: Memory, lipschitz: float, step_factor: float) -> Plan:
        """The next weight of the sequence."""
        t = float(memory.get("nesterov", 1.0))
        following = memory["nesterov"] = (1 + math.sqrt(1 + 4 * t * t)) / 2
        older = float(memory.get("nesterov_lipschitz", lipschitz))
        memory["nesterov_lipschitz"] = lipschitz
        omega = min((t - 1) / following, self.bound * math.sqrt(older / lipschitz)) if lipschitz > 0 else 0.0
        gamma = step_factor * lipschitz
        return Plan(omega, omega, gamma, 0.0, min(1e-3 * gamma, (gamma - lipschitz) / 2))
