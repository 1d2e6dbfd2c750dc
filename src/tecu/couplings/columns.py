"""Matrix factorisation with every column of the factors as a block of its own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import (
    BlockCoupling,
    Data,
    QuadraticRestricted,
    checked_data,
    checked_names,
    residual_magnitude,
)
from tecu.protocols import Blocks, Memory
from tecu.settings import is_whole


class ColumnFactorization(BlockCoupling):
    r"""``H = 1/2 ||Y - sum_k d_k w_k^T||^2`` with the blocks ``d0, w0, d1, w1, ...``.

    The second derivative in one column is a number, so every term has an exact minimiser: column-wise NMF is this
    coupling with ``NonNegative`` on all blocks.

    Parameters
    ----------
    Y
        The data, ``n x p``, dense or SciPy sparse.
    rank
        The number of column pairs.
    codes, dictionary
        The names of the blocks are these with a number behind: ``w_k`` has ``p`` entries, ``d_k`` has ``n``;
        their shape may be ``(n,)`` or ``(n, 1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import terms
    >>> H = ColumnFactorization(np.array([[2.0, -4.0]]), rank=1)
    >>> H.blocks
    ('d0', 'w0')
    >>> H.minimize("w0", {"d0": np.array([2.0]), "w0": np.zeros(2)}, terms.NonNegative(), eta=0.0)
    array([1., 0.])
    """

    def __init__(self, Y: Any, rank: int, codes: str = "w", dictionary: str = "d") -> None:
        owner = type(self).__name__
        checked_names(owner, codes=codes, dictionary=dictionary)
        if not (is_whole(rank) and rank >= 1):
            raise ValueError(f"{owner}: rank must be a whole number >= 1, got {rank!r}")
        Y = checked_data(Y, "Y", owner)
        if len(Y.shape) != 2:
            raise ValueError(f"{owner}: Y must be a matrix, got shape {tuple(Y.shape)}")
        self.data, self.rank = Data(Y.tocsr() if arrays.is_sparse(Y) else Y), int(rank)
        self.codes = tuple(f"{codes}{k}" for k in range(rank))
        self.dictionary = tuple(f"{dictionary}{k}" for k in range(rank))
        self.blocks = tuple(name for pair in zip(self.dictionary, self.codes, strict=True) for name in pair)

    def __repr__(self) -> str:
        n, p = self.data.shape
        return f"ColumnFactorization({n} x {p}, rank={self.rank})"

    def factors(self, z: Blocks) -> tuple[Array, Array]:
        """``D`` and ``W`` with the blocks as columns, checked."""
        n, p = self.data.shape
        return _stacked(z, self.dictionary, n), _stacked(z, self.codes, p)

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        D, W = self.factors(z)
        Y = self.data.like(D)
        if arrays.is_sparse(Y):  # by Gram matrices: D W^T would be dense
            return 0.5 * self.data.square() + arrays.inner(W, 0.5 * W @ (D.T @ D) - Y.T @ D)
        misfit = D @ W.T - Y
        return 0.5 * arrays.inner(misfit, misfit)

    def restrict(self, block: str, z: Blocks) -> ColumnBlock:
        """``H`` as a function of one column."""
        self.require(block)
        return ColumnBlock(self, block, z)


def _stacked(z: Blocks, names: tuple[str, ...], size: int) -> Array:
    columns = []
    for name in names:
        if name not in z:
            raise ValueError(f"block {name!r} of ColumnFactorization is missing; the blocks given are {list(z)}")
        column = z[name]
        if tuple(column.shape) not in ((size,), (size, 1)) or arrays.is_sparse(column):
            raise ValueError(
                f"block {name!r} of ColumnFactorization must be dense, of shape ({size},) or ({size}, 1), "
                f"got {tuple(column.shape)}"
            )
        columns.append(arrays.namespace(column).reshape(column, (size,)))
    return arrays.namespace(columns[0]).stack(columns, axis=1)


class ColumnBlock(QuadraticRestricted):
    """``1/2 ||T - u f^T||^2`` with ``T`` what the other columns leave: gradient ``c u - T f``, ``c = ||f||^2``."""

    def __init__(self, coupling: ColumnFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.model = coupling
        D, W = coupling.factors(z)
        Y, is_codes = coupling.data.like(D), block in coupling.codes
        k = (coupling.codes if is_codes else coupling.dictionary).index(block)
        own, other = (W, D) if is_codes else (D, W)
        factor = other[:, k]
        weights = other.T @ factor
        self.square = arrays.inner(factor, factor)
        target = (Y.T if is_codes else Y) @ factor - own @ weights + own[:, k] * weights[k]
        self.target: Array = arrays.namespace(target).reshape(target, tuple(z[block].shape))

    @cached_property
    def start(self) -> tuple[float, Array]:
        """Value and gradient where the block comes from."""
        return self.model.value(self.z), self.grad(self.z[self.block])

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        return self.value_and_grad(u)[0]

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return self.square * u - self.target

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``: ``H(u0) + 1/2 <g(u) + g(u0), u - u0>``, exact for a quadratic function."""
        (value, first), gradient = self.start, self.grad(u)
        return value + 0.5 * arrays.inner(gradient + first, u - self.z[self.block]), gradient

    def hessian(self, v: Array) -> Array:
        """``||f||^2 v``."""
        return self.square * v

    def curvature(self) -> float:
        """``||f||^2``."""
        return self.square

    def lipschitz(self, memory: Memory) -> float:
        """``||f||^2``."""
        return self.square

    def magnitude(self, value: float) -> float:
        """The values involved, and what the rounding of the residual adds to them."""
        square, sparse = self.model.data.square(), arrays.is_sparse(self.model.data.values)
        largest = max(abs(value), self.start[0])
        if sparse:
            return largest + 0.5 * square
        return residual_magnitude(largest, self.model.data, self.target)
