"""Step sizes for couplings that offer no Lipschitz constant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tecu import arrays
from tecu.arrays import Array

if TYPE_CHECKING:
    from tecu.problem import SubProblem

GROWTH, SHRINK = 2.0, 0.7
MAX_DOUBLINGS = 100


def backtrack(
    sub: SubProblem, u: Array, gradient: Array, *, factor: float = 1.0, center: Array | None = None
) -> tuple[Array, float, float]:
    """A prox-gradient step from ``u`` whose curvature constant holds on the step itself.

    ``L`` grows until ``phi(v) <= phi(u) + <grad phi(u), v - u> + L/2 ||v - u||^2`` for
    ``v = prox(center - grad phi(u) / tau, 1 / tau)`` with ``tau = factor L``; ``center`` is ``u`` unless the step
    is an inertial one. Returns ``v``, ``tau`` and the smallest constant that the step satisfies. The search starts
    below the last ``L``, which ``sub.memory`` keeps, so that steps can grow again.
    """
    center = u if center is None else center
    memory = sub.memory
    constant = float(memory["curvature"]) * SHRINK if "curvature" in memory else _first_guess(sub, u, gradient)
    constant += sub.eta
    phi = None if sub.is_quadratic else sub.smooth_value(u)
    v, tau, needed = u, factor * constant, 0.0
    for _ in range(MAX_DOUBLINGS):
        tau = factor * constant
        v = sub.prox(center - gradient / tau, 1.0 / tau)
        needed = _curvature(sub, u, v, gradient, phi)
        if needed <= constant:
            break
        constant = max(GROWTH * constant, min(needed, 1e3 * constant) * 1.01)
    memory["curvature"] = max(constant - sub.eta, 1e-12 * constant)
    return v, tau, needed


def _curvature(sub: SubProblem, u: Array, v: Array, gradient: Array, phi: float | None) -> float:
    """The smallest ``L`` with ``phi(v) <= phi(u) + <grad, v - u> + L/2 ||v - u||^2``, up to rounding."""
    d = v - u
    length = arrays.norm(d)
    if length == 0.0:
        return 0.0
    product = sub.hessian(d)
    if product is not None:
        return arrays.inner(d, product) / length / length
    assert phi is not None
    value = sub.smooth_value(v)
    excess = value - phi - arrays.inner(gradient, d)
    noise = sub.value_slack(value, phi)
    if abs(excess) <= noise:
        # The values no longer tell: the gradients at both ends still do, to first order in the rounding.
        return max(0.0, arrays.inner(sub.grad(v) - gradient, d)) / length / length
    return 2.0 * excess / length / length


def _first_guess(sub: SubProblem, u: Array, gradient: Array) -> float:
    """A curvature seen along the gradient; only a place to start from."""
    size = arrays.norm(gradient)
    if size == 0.0:
        return 1.0
    step = 1e-3 * (arrays.norm(u) or 1.0) / size
    change = arrays.norm(sub.grad(u - step * arrays.as_kind(gradient, u)) - gradient)
    return max(change / (step * size) - sub.eta, 1e-8)
