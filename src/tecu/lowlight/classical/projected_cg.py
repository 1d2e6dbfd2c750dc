"""Conjugate gradients on the free pixels of a bounded layer, preconditioned by multigrid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from tecu.lowlight.classical.layers import LayerBlock
from tecu.lowlight.classical.multigrid import Multigrid, Plane, Stencil
from tecu.problem import SubProblem
from tecu.protocols import entrywise_of


class ProjectedCG:
    r"""``u <- clip(u + d)``, ``d`` from a few preconditioned CG steps on ``A d = -grad phi(u)`` where ``u`` may move.

    A pixel that sits on its bound and is pushed outwards rests until the next proposal (Bertsekas' projected Newton
    method). For the layers of :class:`~tecu.lowlight.classical.layers.Layers` and terms that are boxes or nothing.

    Parameters
    ----------
    steps
        CG steps a proposal.
    multigrid
        Precondition by a V-cycle; otherwise by the diagonal, which is enough for weakly smoothed layers.
    """

    endless = True

    def __init__(self, steps: int = 4, *, multigrid: bool = True) -> None:
        self.steps, self.multigrid = steps, multigrid

    def __repr__(self) -> str:
        return f"ProjectedCG(steps={self.steps}, multigrid={self.multigrid})"

    def __call__(self, sub: SubProblem, u: Plane) -> Iterator[Plane]:
        """Yield better and better ``u``."""
        smooth = sub.smooth
        if not isinstance(smooth, LayerBlock):
            raise TypeError(
                f"block {sub.block!r}: ProjectedCG works on the layers of Layers, got {type(smooth).__name__}"
            )
        own = smooth.stencil
        stencil = Stencil(own.diagonal + own.diagonal.dtype.type(sub.eta), own.right, own.down)
        precondition = Multigrid(stencil).solve if self.multigrid else _jacobi(stencil)
        lower, upper = _bounds(sub.term)
        while True:
            gradient = sub.grad(u)
            rest = np.zeros(u.shape, dtype=bool)
            if lower is not None:
                rest |= (u <= lower) & (gradient > 0)
            if upper is not None:
                rest |= (u >= upper) & (gradient < 0)
            free = None if not rest.any() else ~rest
            u = u + conjugate_gradients(stencil, -gradient, precondition, self.steps, free)
            if lower is not None:
                np.maximum(u, lower, out=u)
            if upper is not None:
                np.minimum(u, upper, out=u)
            yield u


class Operator(Protocol):
    """A symmetric positive operator on planes."""

    def apply(self, u: Plane) -> Plane:
        """``A u``."""
        ...


def conjugate_gradients(
    operator: Operator, b: Plane, precondition: Callable[[Plane], Plane], steps: int, free: Plane | None = None
) -> Plane:
    """``steps`` of preconditioned CG on ``A d = b`` from 0, on the pixels that are ``free`` (``None``: all)."""
    residual = b if free is None else b * free
    direction = _masked(precondition(residual), free)
    d = np.zeros_like(b)
    rho = float(np.vdot(residual, direction))
    for k in range(steps):
        if not rho > 0.0:  # solved to the last digit
            break
        product = _masked(operator.apply(direction), free)
        curvature = float(np.vdot(direction, product))
        if not curvature > 0.0:
            break
        length = b.dtype.type(rho / curvature)
        d += length * direction
        if k == steps - 1:
            break
        residual = residual - length * product
        conditioned = _masked(precondition(residual), free)
        before, rho = rho, float(np.vdot(residual, conditioned))
        direction = conditioned + b.dtype.type(rho / before) * direction
    return d


def _masked(plane: Plane, free: Plane | None) -> Plane:
    return plane if free is None else np.multiply(plane, free, out=plane)


def _jacobi(stencil: Stencil) -> Callable[[Plane], Plane]:
    inverse = 1.0 / (stencil.diagonal + stencil.weights_around())
    return lambda residual: residual * inverse


def _bounds(term: Any) -> tuple[Any, Any]:
    """The bounds of a box as arrays or numbers; ``None`` where there is none."""
    entry = entrywise_of(term)
    if entry is None or entry.l0 or entry.l1 or entry.l2:
        raise TypeError(f"ProjectedCG takes a box or no term at all, got {term!r}")
    lower, upper = entry.lower, entry.upper
    return (
        None if np.all(np.isneginf(np.asarray(lower))) else lower,
        None if np.all(np.isposinf(np.asarray(upper))) else upper,
    )
