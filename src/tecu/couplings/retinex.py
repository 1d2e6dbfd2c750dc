"""The Retinex product ``O = I R`` with a smooth illumination near an anchor."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import (
    BlockCoupling,
    Data,
    QuadraticRestricted,
    checked_data,
    checked_names,
    checked_number,
    get_block,
    residual_magnitude,
)
from tecu.protocols import Blocks, Memory

REFRESH = 1e-2  # a value this much smaller than the anchor's has lost two digits: take a new anchor


class Retinex(BlockCoupling):
    r"""``H(I, R) = 1/2 ||O - I * R||^2 + alpha/2 ||grad I||^2 + beta/2 ||I - anchor||^2``.

    ``grad`` takes forward differences along rows and columns; nothing flows over the border (Neumann).

    Parameters
    ----------
    observed
        The image ``O``: ``height x width``, or ``height x width x channels``, where all channels share one ``I``.
    illumination, reflectance
        The names of the blocks ``I`` (``height x width``) and ``R`` (the shape of ``O``).
    alpha, beta
        The weights of smoothness and anchor.
    anchor
        The illumination that ``I`` should stay near, ``height x width``; needed if ``beta > 0``.

    Notes
    -----
    ``max(sum_c R^2) + 8 alpha + beta`` and ``max(I^2)`` bound the curvatures. ``R`` has an exact minimiser for all
    terms that work entry by entry (``Box`` ...), and so has ``I`` without smoothness (``alpha = 0``).

    Examples
    --------
    >>> import numpy as np
    >>> H = Retinex(np.full((2, 2), 0.5), alpha=1.0)
    >>> z = {"I": np.array([[1.0, 1.0], [1.0, 0.0]]), "R": np.full((2, 2), 0.5)}
    >>> H.value(z)
    1.125
    >>> H.grad("I", z).tolist()
    [[0.0, 1.0], [1.0, -2.25]]
    """

    def __init__(
        self,
        observed: Any,
        illumination: str = "I",
        reflectance: str = "R",
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        anchor: Any = None,
    ) -> None:
        owner = type(self).__name__
        self.blocks = checked_names(owner, illumination=illumination, reflectance=reflectance)
        self.illumination, self.reflectance = illumination, reflectance
        self.alpha, self.beta = checked_number(alpha, "alpha", owner), checked_number(beta, "beta", owner)
        observed = checked_data(observed, "observed", owner)
        shape = tuple(observed.shape)
        if arrays.is_sparse(observed) or len(shape) not in (2, 3):
            raise ValueError(f"{owner}: observed must be a dense image, height x width (x channels), got shape {shape}")
        self.observed = Data(observed)
        self.size: tuple[int, int] = (int(observed.shape[0]), int(observed.shape[1]))
        self.anchor: Data | None = None
        if self.beta > 0.0:
            if anchor is None:
                raise ValueError(f"{owner}: beta={self.beta:g} needs an anchor, an illumination of shape {self.size}")
            anchor = checked_data(anchor, "anchor", owner)
            if arrays.is_sparse(anchor):
                raise TypeError(f"{owner}: anchor must be a dense array, got a sparse one; use .toarray()")
            if tuple(anchor.shape) != self.size:
                raise ValueError(
                    f"{owner}: anchor must have the shape of the illumination, {self.size}, got {tuple(anchor.shape)}"
                )
            self.anchor = Data(anchor)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.observed.shape))
        return f"Retinex({shape}, alpha={self.alpha:g}, beta={self.beta:g})"

    def images(self, z: Blocks) -> tuple[Array, Array]:
        """``I`` and ``R``, checked."""
        owner = type(self).__name__
        return (
            get_block(z, self.illumination, self.size, owner, dense=True),
            get_block(z, self.reflectance, self.observed.shape, owner),
        )

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        light, R = self.images(z)
        misfit = _over_channels(light, R) * R - self.observed.like(R)
        return 0.5 * arrays.inner(misfit, misfit) + self.prior(light)

    def prior(self, light: Array) -> float:
        """``alpha/2 ||grad I||^2 + beta/2 ||I - anchor||^2``."""
        total = 0.0
        if self.alpha > 0.0:
            down, right = light[1:, :] - light[:-1, :], light[:, 1:] - light[:, :-1]
            total += 0.5 * self.alpha * (arrays.inner(down, down) + arrays.inner(right, right))
        if self.anchor is not None:
            away = light - self.anchor.like(light)
            total += 0.5 * self.beta * arrays.inner(away, away)
        return total

    def restrict(self, block: str, z: Blocks) -> IlluminationBlock | ReflectanceBlock:
        """``H`` as a function of ``I`` or ``R``."""
        self.require(block)
        self.images(z)
        return IlluminationBlock(self, block, z) if block == self.illumination else ReflectanceBlock(self, block, z)


def _over_channels(image: Array, like: Array) -> Array:
    """A ``height x width`` image, ready to be multiplied with one that may have channels."""
    return image[:, :, None] if len(like.shape) == 3 else image


def _sum_channels(image: Array) -> Array:
    return arrays.namespace(image).sum(image, axis=2) if len(image.shape) == 3 else image


def add_laplacian(out: Array, image: Array, alpha: float) -> Array:
    """``out + alpha grad^T grad image``; NumPy's ``out`` is overwritten."""
    down, right = image[1:, :] - image[:-1, :], image[:, 1:] - image[:, :-1]
    if alpha != 1.0:
        down, right = down * alpha, right * alpha
    if isinstance(out, np.ndarray):
        out[1:, :] += down
        out[:-1, :] -= down
        out[:, 1:] += right
        out[:, :-1] -= right
        return out
    xp = arrays.namespace(out)
    row, column = xp.zeros_like(image[:1, :]), xp.zeros_like(image[:, :1])
    return out + (
        xp.concat([row, down], axis=0) - xp.concat([down, row], axis=0)
        + xp.concat([column, right], axis=1) - xp.concat([right, column], axis=1)
    )  # fmt: skip


class IlluminationBlock(QuadraticRestricted):
    """``H(., R)``, with the gradient ``q I + alpha grad^T grad I - b``.

    ``q = sum_c R^2 + beta`` and ``b = sum_c O R + beta anchor``.
    """

    def __init__(self, coupling: Retinex, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.model = coupling
        self.R: Array = z[coupling.reflectance]
        self.observed: Array = coupling.observed.like(self.R)
        self._anchor: tuple[Array, float, Array] | None = None  # a point, the value and the gradient there

    @cached_property
    def diagonal(self) -> Array:
        """``q``."""
        q = _sum_channels(self.R * self.R)
        return q + self.model.beta if self.model.beta > 0.0 else q

    @cached_property
    def right(self) -> Array:
        """``b``."""
        b = _sum_channels(self.observed * self.R)
        return b if self.model.anchor is None else b + self.model.beta * self.model.anchor.like(b)

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        gradient = self.diagonal * u
        if isinstance(gradient, np.ndarray):
            gradient -= self.right  # its own memory
        else:
            gradient = gradient - self.right
        return gradient if self.model.alpha == 0.0 else add_laplacian(gradient, u, self.model.alpha)

    def hessian(self, v: Array) -> Array:
        """``q V + alpha grad^T grad V``."""
        product = self.diagonal * v
        return product if self.model.alpha == 0.0 else add_laplacian(product, v, self.model.alpha)

    def value(self, u: Array) -> float:
        """``H(u, R)``."""
        return self._direct_value(u) if self._anchor is None else self.value_and_grad(u)[0]

    def _direct_value(self, u: Array) -> float:
        misfit = _over_channels(u, self.R) * self.R - self.observed
        return 0.5 * arrays.inner(misfit, misfit) + self.model.prior(u)

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``; after the first point the value costs one inner product.

        ``H(u) = H(u0) + 1/2 <g(u) + g(u0), u - u0>`` is exact for a quadratic function.
        """
        gradient = self.grad(u)
        if self._anchor is not None:
            point, value, first = self._anchor
            latest = value + 0.5 * arrays.inner(gradient + first, u - point)
            if latest >= REFRESH * value:
                return latest, gradient
        value = self._direct_value(u)
        self._anchor = (arrays.copy(u), value, arrays.copy(gradient))
        return value, gradient

    def lipschitz(self, memory: Memory) -> float:
        """``max(q) + 8 alpha``: no eigenvalue of ``grad^T grad`` exceeds 8."""
        return float(arrays.host(self.diagonal).max()) + 8.0 * self.model.alpha

    def curvature(self) -> Array | None:
        """``q``, without smoothness."""
        return self.diagonal if self.model.alpha == 0.0 else None

    def magnitude(self, value: float) -> float:
        """The value, and what the rounding of ``I R - O`` adds to it."""
        largest = abs(value) if self._anchor is None else max(abs(value), self._anchor[1])
        return residual_magnitude(largest, self.model.observed, self.R)


class ReflectanceBlock(QuadraticRestricted):
    """``H(I, .)``: gradient ``(I R - O) I``, second derivative ``I^2``."""

    def __init__(self, coupling: Retinex, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.model = coupling
        light: Array = z[coupling.illumination]
        self.light = _over_channels(light, z[block])
        self.observed: Array = coupling.observed.like(light)

    @cached_property
    def prior(self) -> float:
        """What does not depend on ``R``."""
        return self.model.prior(self.z[self.model.illumination])

    def value(self, u: Array) -> float:
        """``H(I, u)``."""
        misfit = self.light * u - self.observed
        return 0.5 * arrays.inner(misfit, misfit) + self.prior

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return (self.light * u - self.observed) * self.light

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the value."""
        misfit = self.light * u - self.observed
        return 0.5 * arrays.inner(misfit, misfit) + self.prior, misfit * self.light

    def hessian(self, v: Array) -> Array:
        """``I^2 V``."""
        return self.light * self.light * v

    def lipschitz(self, memory: Memory) -> float:
        """``max(I^2)``."""
        brightest = float(np.max(np.abs(arrays.host(self.light))))
        return brightest * brightest

    def curvature(self) -> Array:
        """``I^2``."""
        square = self.light * self.light
        shape = tuple(self.z[self.block].shape)
        return square if tuple(square.shape) == shape else arrays.namespace(square).broadcast_to(square, shape)

    def magnitude(self, value: float) -> float:
        """The value, and what the rounding of ``I R - O`` adds to it."""
        return residual_magnitude(value, self.model.observed, self.light)
