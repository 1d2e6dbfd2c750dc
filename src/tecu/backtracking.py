"""Step sizes for couplings that offer no Lipschitz constant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tecu import arrays
from tecu.arrays import Array

if TYPE_CHECKING:
    from tecu.problem import SubProblem

GROWTH, SHRINK = 2.0, 0.7
MAX_DOUBLINGS = 100
PROBES = (1e-3, 1e-5, 1e-7)  # lengths of the step along which the curvature is first looked at, by the block's own
FLAT = 1e-8  # curvature that counts as none, as a share of the gradient's size over the block's
LARGEST = 1e290  # constant: the step 1 / tau stays above zero
SUSPICIOUS = 1e6  # growth of a constant in one search


def backtrack(
    sub: SubProblem, u: Array, gradient: Array, *, factor: float = 1.0, center: Array | None = None
) -> tuple[Array, float, float, float | None]:
    """A prox-gradient step from ``u`` whose curvature constant holds on the step itself.

    ``L`` grows until ``phi(v) <= phi(u) + <grad phi(u), v - u> + L/2 ||v - u||^2`` for
    ``v = prox(center - grad phi(u) / tau, 1 / tau)`` with ``tau = factor L``; ``center`` is ``u`` unless the step
    is an inertial one. Returns ``v``, ``tau``, the smallest constant that the step satisfies, and ``H(v)`` where it
    was needed. The search starts below the last ``L``, which ``sub.notes`` keep, so that steps can grow again.
    """
    center = u if center is None else center
    notes = sub.notes
    constant = float(notes["curvature"]) * SHRINK if "curvature" in notes else _first_guess(sub, u, gradient)
    constant += sub.eta
    first = constant
    phi = None if sub.is_quadratic else sub.smooth_value(u)
    v, tau, needed, value = u, factor * constant, 0.0, None
    for _ in range(MAX_DOUBLINGS):
        tau = factor * constant
        v = sub.prox(center - gradient / tau, 1.0 / tau)
        needed, value = _curvature(sub, u, v, gradient, phi)
        if needed <= constant or constant > LARGEST:
            break
        if math.isinf(needed) and not arrays.all_finite(gradient):
            break  # no step is short enough
        growth = 1.01 * min(needed, 1e3 * constant) if math.isfinite(needed) else 0.0  # a step out of H's domain
        constant = max(GROWTH * constant, growth)
    # What only a step out of the domain or a false gradient asks for is not worth remembering.
    if needed <= constant and (constant <= first * SUSPICIOUS or sub.trusts(constant)):
        notes["curvature"] = max(constant - sub.eta, 1e-12 * constant)
    else:
        notes.pop("curvature", None)
    return v, tau, needed, value


def _curvature(sub: SubProblem, u: Array, v: Array, gradient: Array, phi: float | None) -> tuple[float, float | None]:
    """The smallest ``L`` with ``phi(v) <= phi(u) + <grad, v - u> + L/2 ||v - u||^2``, to rounding; and ``H(v)``."""
    d = v - u
    length = arrays.norm(d)
    if length == 0.0:
        return 0.0, None
    product = sub.hessian(d)
    if product is not None:
        return arrays.inner(d, product) / length / length, None
    assert phi is not None
    coupling = sub.coupling_value(v)
    value = coupling + sub.proximal_value(v)
    if not math.isfinite(value):
        return math.inf, coupling
    excess = value - phi - arrays.inner(gradient, d)
    noise = sub.value_slack(value, phi)
    if abs(excess) <= noise:
        # The values no longer tell: the gradients at both ends still do, to first order in the rounding.
        return max(0.0, arrays.inner(sub.grad(v) - gradient, d)) / length / length, coupling
    return 2.0 * excess / length / length, coupling


def seen_curvature(sub: SubProblem, rounds: int = 3) -> float:
    """About the largest curvature of ``H(., others)`` at ``previous``, by power steps on differences of gradients.

    ``v <- (grad H(x + s v) - grad H(x)) / s``; a place to start from is the gradient, and noise where blocks are dense.
    """
    x, gradient = sub.previous, sub.coupling_at_previous()[1]
    v = arrays.as_kind(gradient, x)
    size = arrays.norm(v)
    if not arrays.is_sparse(x):
        noise = arrays.from_numpy(np.random.default_rng(0).standard_normal(tuple(x.shape)), x)
        v = noise + v * (arrays.norm(noise) / size) if size > 0.0 else noise
        v = v if arrays.norm(v) > 0.0 else noise  # of a single entry the two may cancel
        size = arrays.norm(v)
    step = 1e-3 * (arrays.norm(x) or 1.0)
    largest = 0.0
    for _ in range(rounds):
        if not (0.0 < size < math.inf):
            break
        change = sub.coupling_grad(x + (step / size) * v) - gradient
        size = arrays.norm(change)
        if math.isfinite(size):
            largest = max(largest, size / step)
        v = arrays.as_kind(change, x)
    return largest


def _first_guess(sub: SubProblem, u: Array, gradient: Array) -> float:
    """A curvature seen along the gradient; only a place to start from."""
    size, length = arrays.norm(gradient), arrays.norm(u) or 1.0
    if not 0.0 < size < math.inf:
        return 1.0
    least = max(FLAT * size / length, arrays.least_divisor(u))  # in the unit of a curvature, whatever the scale of H
    for share in PROBES:
        step = share * length / size
        change = arrays.norm(sub.grad(u - step * arrays.as_kind(gradient, u)) - gradient)
        if math.isfinite(change):
            return max(change / (step * size) - sub.eta, least)
    return max(size / length, least)  # every probe left H's domain
