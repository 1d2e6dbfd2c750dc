"""Terms of a matrix as a whole: its singular values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tecu.arrays import Array, all_finite, host, namespace, norm, unit_roundoff
from tecu.terms.base import (
    INFINITY,
    Addable,
    check_matrix,
    checked_count,
    checked_step,
    checked_weight,
    in_range,
    indicator,
    largest,
    rounding,
    through_dense,
    whole,
)


@dataclass(frozen=True)
class Rank(Addable):
    """``rank(x) <= r``; its prox keeps the ``r`` largest singular values.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.Rank(1).prox(np.diag([3.0, 2.0]), step=1.0)
    array([[3., 0.],
           [0., 0.]])
    """

    r: int
    is_convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", checked_count(self, self.r, "r"))

    def value(self, x: Array) -> float:
        """0 where the other singular values vanish next to the largest (up to rounding), else inf."""
        check_matrix(self, x)
        if not all_finite(x):
            return INFINITY
        sigma = np.linalg.svd(whole(x).astype(np.float64), compute_uv=False)
        return indicator(largest(sigma[self.r :]), rounding(x) * largest(sigma[:1]))

    def prox(self, x: Array, step: float) -> Array:
        """``U_r diag(sigma_r) V_r^T``."""
        check_matrix(self, x)
        checked_step(self, step)

        def truncate(values: Array) -> Array:
            u, sigma, vt = _svd(values)
            return (u[:, : self.r] * sigma[: self.r]) @ vt[: self.r, :]

        return through_dense(truncate, x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The part of ``g`` that no ``V`` of rank ``min(shape) - r`` matches, ``x^T V = 0 = V x^T``."""
        check_matrix(self, x)
        u, vt = _singular_spaces(x, self.r)
        slope = whole(g).astype(np.float64)
        normal = _off(slope, u, vt)
        sigma = np.linalg.svd(normal, compute_uv=False)
        return float(np.hypot(norm(slope - normal), norm(sigma[max(sigma.size - self.r, 0) :])))


@dataclass(frozen=True)
class NuclearNorm(Addable):
    """``weight * sum of singular values``; its prox shrinks them by ``weight step``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.NuclearNorm(1.0).prox(np.diag([3.0, 0.5]), step=1.0)
    array([[2., 0.],
           [0., 0.]])
    """

    weight: float
    is_convex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", checked_weight(self, self.weight))

    def value(self, x: Array) -> float:
        """``weight * sum of singular values``."""
        check_matrix(self, x)
        if not all_finite(x):
            return INFINITY
        sigma = np.linalg.svd(whole(x).astype(np.float64), compute_uv=False)
        return self.weight * float(np.sum(sigma))

    def prox(self, x: Array, step: float) -> Array:
        """``U diag(max(sigma - weight step, 0)) V^T``."""
        return self.prox_and_value(x, step)[0]

    def prox_and_value(self, x: Array, step: float) -> tuple[Array, float]:
        """The prox and the value there, for one decomposition."""
        check_matrix(self, x)
        threshold = self.weight * checked_step(self, step)
        total = 0.0

        def shrink(values: Array) -> Array:
            nonlocal total
            u, sigma, vt = _svd(values)
            left = namespace(values).clip(sigma - in_range(threshold, values), 0, None)
            total = self.weight * float(np.sum(host(left), dtype=np.float64))
            return (u * left) @ vt

        return through_dense(shrink, x), total

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """The distance of ``g`` to ``weight (U V^T + R)``, ``x^T R = 0 = R x^T``, ``||R||_2 <= 1``."""
        check_matrix(self, x)
        u, vt = _singular_spaces(x, min(x.shape))
        slope = whole(g).astype(np.float64)
        normal = _off(slope, u, vt)
        excess = np.linalg.svd(normal, compute_uv=False) - self.weight
        return float(np.hypot(norm(slope - normal - self.weight * (u @ vt)), norm(np.maximum(excess, 0.0))))


@dataclass(frozen=True)
class Stiefel(Addable):
    """``x^T x = 1``, orthonormal columns; its prox is the polar factor ``U V^T`` of ``x = U S V^T``.

    >>> import numpy as np
    >>> from tecu import terms
    >>> terms.Stiefel().prox(np.array([[0.0, -2.0], [3.0, 0.0]]), step=1.0) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """

    is_convex: ClassVar[bool] = False

    def value(self, x: Array) -> float:
        """0 where ``x^T x = 1`` up to rounding, else inf."""
        self._check(x)
        values = whole(x).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            excess = values.T @ values - np.eye(x.shape[1])
        return indicator(largest(np.abs(excess)), rounding(x))

    def prox(self, x: Array, step: float) -> Array:
        """``U V^T``, the nearest matrix with orthonormal columns."""
        self._check(x)
        checked_step(self, step)

        def polar(values: Array) -> Array:
            u, _, vt = _svd(values)
            return u @ vt

        return through_dense(polar, x)

    def subdiff_distance(self, x: Array, g: Array) -> float:
        """``||g - x S||`` with ``S`` the symmetric part of ``x^T g``: the normals at ``x`` are ``x S``."""
        self._check(x)
        point, slope = whole(x).astype(np.float64), whole(g).astype(np.float64)
        product = point.T @ slope
        return norm(slope - point @ ((product + product.T) / 2))

    def _check(self, x: Array) -> None:
        check_matrix(self, x)
        if x.shape[0] < x.shape[1]:
            raise ValueError(
                f"Stiefel: a block of shape {tuple(x.shape)} has more columns than rows, "
                "so its columns cannot be orthonormal"
            )


def _svd(x: Array) -> Any:
    """The thin SVD; of NaN, NaN, as in every other prox (the libraries raise instead)."""
    xp = namespace(x)
    if all_finite(x):
        return xp.linalg.svd(x, full_matrices=False)
    u, sigma, vt = xp.linalg.svd(xp.zeros_like(x), full_matrices=False)
    return u + float("nan"), sigma, vt


def _singular_spaces(x: Array, most: int) -> tuple[Any, Any]:
    """Bases of column and row space of ``x``, of at most ``most`` vectors."""
    u, sigma, vt = np.linalg.svd(whole(x).astype(np.float64), full_matrices=False)
    noise = 8 * unit_roundoff(x) * max(x.shape) * largest(sigma[:1])
    rank = min(int(np.sum(sigma > noise)), most)
    return u[:, :rank], vt[:rank, :]


def _off(g: Any, u: Any, vt: Any) -> Any:
    """``(1 - U U^T) g (1 - V V^T)``."""
    g = g - u @ (u.T @ g)
    return g - (g @ vt.T) @ vt
