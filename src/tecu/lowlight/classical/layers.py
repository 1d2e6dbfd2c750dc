"""The coupling of the Retinex models: two layers that explain a picture, each with weighted smoothness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tecu import arrays
from tecu.couplings.base import BlockCoupling, QuadraticRestricted, get_block
from tecu.lowlight.classical.multigrid import Plane, Stencil
from tecu.protocols import Blocks, Memory


@dataclass(frozen=True)
class Prior:
    r"""``1/2 sum_d <w_d, (grad_d u - s_d)^2> + pull/2 ||u - anchor||^2`` on a layer ``u``.

    ``right`` and ``down`` are the weights ``w_d``, arrays of the size of the differences or numbers. ``s`` is the block
    named by ``split`` (``2 x height x width``, the last column of ``s[0]`` and the last row of ``s[1]`` unused), or 0.
    """

    right: Any = 0.0
    down: Any = 0.0
    pull: float = 0.0
    anchor: Plane | None = None
    split: str | None = None


class Layers(BlockCoupling):
    r"""``H(I, R) = 1/2 ||S - I R||^2 + prior_I(I) + prior_R(R)``; in the logarithmic domain ``||S - I - R||^2``.

    Parameters
    ----------
    observed
        ``S``, one plane.
    illumination, reflectance
        The priors of the blocks ``"I"`` and ``"R"``. Without one for ``R`` there is no such block, and ``H(I) = 1/2
        ||S - I||^2 + prior_I(I)``.
    logarithmic
        Whether the layers add up instead of being multiplied.

    Examples
    --------
    >>> import numpy as np
    >>> H = Layers(np.full((2, 2), 0.5), Prior(right=1.0, down=1.0), Prior())
    >>> H.value({"I": np.array([[1.0, 1.0], [1.0, 0.0]]), "R": np.full((2, 2), 0.5)})
    1.125
    """

    def __init__(
        self, observed: Plane, illumination: Prior, reflectance: Prior | None = None, *, logarithmic: bool = False
    ) -> None:
        self.observed, self.logarithmic = observed, logarithmic
        self.priors = {"I": illumination} if reflectance is None else {"I": illumination, "R": reflectance}
        splits = [prior.split for prior in self.priors.values() if prior.split is not None]
        self.blocks = (*self.priors, *splits)
        self._owner = {prior.split: name for name, prior in self.priors.items()}

    def misfit(self, z: Blocks) -> Plane:
        """``S - I R`` or ``S - I - R``."""
        if "R" not in self.priors:
            return np.asarray(self.observed - z["I"])
        model = z["I"] + z["R"] if self.logarithmic else z["I"] * z["R"]
        return np.asarray(self.observed - model)

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        for name in self.blocks:
            get_block(z, name, self._shape(name), "Layers")
        rest = self.misfit(z)
        return 0.5 * arrays.inner(rest, rest) + sum(self.prior_value(name, z) for name in self.priors)

    def _shape(self, name: str) -> tuple[int, ...]:
        return self.observed.shape if name in self.priors else (2, *self.observed.shape)

    def prior_value(self, name: str, z: Blocks) -> float:
        """The prior of one layer."""
        prior, u, total = self.priors[name], z[name], 0.0
        for axis, weight in ((1, prior.right), (0, prior.down)):
            if np.ndim(weight) == 0 and not weight:
                continue
            slope = np.diff(u, axis=axis)
            if prior.split is not None:
                slope -= steps(z[prior.split], axis)
            total += 0.5 * arrays.inner(weight * slope, slope)
        if prior.pull and prior.anchor is not None:
            away = u - prior.anchor
            total += 0.5 * prior.pull * arrays.inner(away, away)
        return total

    def restrict(self, block: str, z: Blocks) -> LayerBlock | SplitBlock:
        """``H`` as a function of a layer, or of the slopes split off it."""
        self.require(block)
        if block in self.priors:
            return LayerBlock(self, block, z)
        return SplitBlock(self, block, z, self._owner[block])


def steps(split: Plane, axis: int) -> Plane:
    """The part of a split block that belongs to the differences along an axis."""
    return np.asarray(split[0][:, :-1] if axis == 1 else split[1][:-1])


class LayerBlock(QuadraticRestricted):
    """``H`` of one layer: gradient ``A u - b`` with the five-point stencil ``A``."""

    def __init__(self, coupling: Layers, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.model, self.prior = coupling, coupling.priors[block]
        self._point: tuple[Plane, float, Plane] | None = None

    @cached_property
    def stencil(self) -> Stencil:
        """``A``."""
        u, other = self.z[self.block], self._other()
        diagonal = np.ones_like(u) if other is None or self.model.logarithmic else other * other
        if self.prior.pull:
            diagonal = diagonal + u.dtype.type(self.prior.pull)
        height, width = u.shape
        return Stencil(
            diagonal, _whole(self.prior.right, (height, width - 1), u), _whole(self.prior.down, (height - 1, width), u)
        )

    def _other(self) -> Plane | None:
        name = "R" if self.block == "I" else "I"
        return self.z[name] if name in self.model.priors else None

    @cached_property
    def right_side(self) -> Plane:
        """``b``."""
        other = self._other()
        if other is None:
            b = self.model.observed.copy()
        else:
            b = self.model.observed - other if self.model.logarithmic else self.model.observed * other
        if self.prior.pull and self.prior.anchor is not None:
            b += b.dtype.type(self.prior.pull) * self.prior.anchor
        if self.prior.split is not None:
            flow = self.stencil.right * steps(self.z[self.prior.split], 1)
            b[:, 1:] += flow
            b[:, :-1] -= flow
            flow = self.stencil.down * steps(self.z[self.prior.split], 0)
            b[1:] += flow
            b[:-1] -= flow
        return b

    def grad(self, u: Plane) -> Plane:
        """``A u - b``."""
        out = self.stencil.apply(u)
        return np.subtract(out, self.right_side, out=out)

    def hessian(self, v: Plane) -> Plane:
        """``A v``."""
        return self.stencil.apply(v)

    def value(self, u: Plane) -> float:
        """``H`` at ``u``."""
        return self.value_and_grad(u)[0]

    def value_and_grad(self, u: Plane) -> tuple[float, Plane]:
        """``H(u0) + 1/2 <g(u) + g(u0), u - u0>``, exact for a quadratic, and ``g(u)``."""
        gradient = self.grad(u)
        if self._point is None:
            value = self.model.value(self._at(u))
            self._point = (u, value, gradient)
            return value, gradient
        point, value, first = self._point
        return value + 0.5 * arrays.inner(gradient + first, u - point), gradient

    def curvature(self) -> Plane | None:
        """``A`` where it is diagonal."""
        plain = np.ndim(self.prior.right) == 0 and not self.prior.right and np.ndim(self.prior.down) == 0
        return self.stencil.diagonal if plain and not self.prior.down else None

    def lipschitz(self, memory: Memory) -> float:
        """The largest ``q`` plus twice the weights around a pixel (Gershgorin)."""
        return float((self.stencil.diagonal + 2.0 * self.stencil.weights_around()).max())

    def magnitude(self, value: float) -> float:
        """The value, or what was summed to get it."""
        return abs(value) if self._point is None else max(abs(value), abs(self._point[1]))


class SplitBlock(QuadraticRestricted):
    """``H`` of the slopes ``s`` split off a layer ``u``: ``1/2 sum_d <w_d, (grad_d u - s_d)^2>`` plus a constant."""

    def __init__(self, coupling: Layers, block: str, z: Blocks, owner: str) -> None:
        super().__init__(coupling, block, z)
        self.model, self.owner = coupling, owner

    @cached_property
    def weights(self) -> Plane:
        """``w`` in the shape of the block; 0 where an entry is unused."""
        prior, s = self.model.priors[self.owner], self.z[self.block]
        whole: Plane = np.zeros_like(s)
        whole[0][:, :-1] = prior.right
        whole[1][:-1] = prior.down
        return whole

    @cached_property
    def slopes(self) -> Plane:
        """``grad u`` in the shape of the block."""
        u = self.z[self.owner]
        whole: Plane = np.zeros_like(self.z[self.block])
        whole[0][:, :-1] = np.diff(u, axis=1)
        whole[1][:-1] = np.diff(u, axis=0)
        return whole

    def grad(self, u: Plane) -> Plane:
        """``w (s - grad u)``."""
        return np.asarray(self.weights * (u - self.slopes))

    def hessian(self, v: Plane) -> Plane:
        """``w v``."""
        return np.asarray(self.weights * v)

    def curvature(self) -> Plane:
        """``w``."""
        return self.weights

    def lipschitz(self, memory: Memory) -> float:
        """The largest ``w``."""
        return float(self.weights.max())


def _whole(weight: Any, shape: tuple[int, int], like: Plane) -> Plane:
    return np.asarray(np.broadcast_to(np.asarray(weight, dtype=like.dtype), shape))
