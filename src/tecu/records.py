"""The record of a visit: made when the block has moved, completed when ``Psi`` at its new value is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tecu import arrays
from tecu.problem import SubProblem
from tecu.rounding import grain, lean
from tecu.state import Visit
from tecu.updates.base import Step


def record(kind: str, sub: SubProblem, step: Step, index: int, sweep: int, h: Sequence[float], psi: float) -> Visit:
    """What a visit did. ``h`` are values of ``H`` whose rounding it carries, ``psi`` is ``Psi`` before it."""
    counters = sub.counters
    r = arrays.unit_roundoff(sub.previous)
    magnitude = 8 * r * abs(sub.term_at_previous()) + 2 * math.ulp(psi)
    magnitude += step.room + grain(sub, max(step.tau, step.descent + step.weight))
    return Visit(
        index=index, sweep=sweep, block=sub.block, kind=kind, outcome=step.outcome,
        move=arrays.distance(step.u, sub.previous) if math.isnan(step.move) else step.move,
        previous_move=math.nan if sub.previous_move is None else sub.previous_move,
        norm=sub.size_of_previous(), value=math.nan,
        error=step.error, tolerance=step.tolerance, inner=step.inner, tau=step.tau, lipschitz=step.lipschitz,
        descent=step.descent, weight=step.weight, reserve=step.reserve, reserve_before=step.reserve_before,
        slack=2 * sub.value_slack(*h) + lean(sub) + magnitude, fault=step.fault,
        values=counters.values, gradients=counters.gradients, hessians=counters.hessians, proxes=counters.proxes,
        products=int(sub.coupling_memory.pop("products", 0)), strategy_calls=counters.strategy_calls,
    )  # fmt: skip


def valued(visit: Visit, sub: SubProblem, h: tuple[float, float], psi: float) -> Visit:
    """The record with ``Psi`` after the visit, where ``sub`` has read off ``H``; ``h`` is that before and after.

    Where ``H`` has become larger by size, its rounding has, too.
    """
    before, after = h
    grown = 2 * sub.value_slack(after) if abs(after) > abs(before) else 0.0
    return replace(visit, value=psi, slack=visit.slack + grown)
