"""What the theorem promises of the visits of a run: the table of docs/certificate.md, written down once more."""

from __future__ import annotations

import math

import numpy as np

import tecu
from tecu import Outcome


def promises(problem, updates, visits):
    """``(a, weight)`` of each visit, from the settings and the recorded ``tau`` and ``L``, which ``a`` is made of."""
    held = {}
    for visit in visits:
        update, is_convex = updates[visit.block], problem.terms[visit.block].is_convex
        gamma, L = visit.tau, visit.lipschitz
        plain = gamma - L / 2 if is_convex else (gamma - L) / 2
        rule = getattr(update, "extrapolation", None)
        if isinstance(update, tecu.Proximal):
            yield update.eta / 2, 0.0
        elif isinstance(update, tecu.Embed):
            yield embedded(update, eta=gamma - L)  # tau = L + eta
        elif isinstance(rule, tecu.Inertial) and (visit.block in held or not update.safeguard):
            delta = L * (rule.alpha + rule.beta) / (1 - rule.eps - 2 * rule.alpha)
            delta = held[visit.block] = max(delta, held.get(visit.block, 0.0))
            inertial = ((1 - rule.alpha) * gamma - (1 + rule.beta) * L - delta) / 2, delta / 2
            if visit.outcome is Outcome.REDONE:  # a plain step, of whose fall some is held for the next one
                kept = min(delta / 2, plain / 2)
                yield plain - kept, kept
            else:
                yield inertial
        else:
            held[visit.block] = 0.0
            yield plain, 0.0


def embedded(update, eta):
    rule = update.tolerance
    if isinstance(rule, tecu.SummableTolerance):
        return eta / 4, 0.0
    c = rule.c if rule is not None else eta / 4 if update.c is None else update.c
    return eta / 4 - c**2 / eta, c**2 / eta


def room(state):
    """What rounding may do to ``Psi``, which is largest at the start: 64 units of it a root of the entries."""
    entries = max(x.size for x in state.z.values())
    r = max(np.finfo(x.dtype).eps for x in state.z.values()) / 2
    return 64 * math.sqrt(entries) * r * abs(state.start_value)
