"""Matrix factorisation, ``H = 1/2 ||Y - D W^T||^2``, with dense or sparse factors and missing entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import BlockCoupling, Data, checked_data, checked_names, get_block
from tecu.couplings.factor_blocks import AnchoredFactor, GramFactor
from tecu.couplings.weighted_factor import WeightedFactor
from tecu.lipschitz import Method, check_method
from tecu.protocols import Blocks


class MatrixFactorization(BlockCoupling):
    r"""``H(W, D) = 1/2 ||Y - D W^T||^2``, or ``1/2 ||sqrt(weights) * (Y - D W^T)||^2``.

    Parameters
    ----------
    Y
        The data, ``n x p``, one sample a column; dense, or SciPy sparse (entries that are not stored are zeros).
    codes, dictionary
        The names of the blocks ``W`` (``p x m``, dense or CSR) and ``D`` (``n x m``, dense).
    mask
        ``n x p`` booleans, true where ``Y`` is known. What stands in the other places does not matter.
    weights
        ``n x p`` numbers that are not negative, instead of a mask.
    lipschitz
        How the constants ``||D||_2^2`` and ``||W||_2^2`` are computed: ``"power"`` (power iteration, warm-started, with
        one percent on top), ``"gram"`` (eigenvalues of the Gram matrix) or ``"svd"`` (singular values of the factor).

    Notes
    -----
    The gradients are ``(D W^T - Y) W`` and ``(D W^T - Y)^T D``. Within a visit the first one is computed from the
    residual; the next ones through the Gram matrix of the other factor, where that is cheaper, as a change from the
    first: ``g0 + (u - u0) A``. So values do not suffer from the cancellation in ``||Y||^2 - 2 <Y, D W^T> + ...``.

    Exact minimisers exist for every term if the other factor has one column or orthonormal columns, for ``Stiefel``
    on ``D``, and for ``Zero`` and ``SquaredL2``.

    Examples
    --------
    >>> import numpy as np
    >>> H = MatrixFactorization(np.eye(2))
    >>> z = {"W": np.ones((2, 1)), "D": np.array([[1.0], [0.0]])}
    >>> H.value(z)
    1.0
    >>> H.grad("D", z).ravel().tolist()
    [1.0, -1.0]
    """

    def __init__(
        self,
        Y: Any,
        codes: str = "W",
        dictionary: str = "D",
        *,
        mask: Any = None,
        weights: Any = None,
        lipschitz: Method = "power",
    ) -> None:
        owner = type(self).__name__
        check_method(lipschitz)
        self.blocks = checked_names(owner, codes=codes, dictionary=dictionary)
        self.codes, self.dictionary, self.method = codes, dictionary, lipschitz
        if mask is not None and weights is not None:
            raise ValueError(f"{owner}: give mask or weights, not both")
        self.weights: Data | None = None
        if mask is not None or weights is not None:
            name = "weights" if mask is None else "mask"
            weights = _checked_weights(weights if mask is None else mask, name, owner)
            if arrays.is_sparse(Y):
                raise TypeError(f"{owner}: {name} needs a dense Y, got a sparse one; use Y.toarray()")
            Y = _without_missing(Y, weights, name, owner)
            self.weights = Data(weights)
        Y = checked_data(Y, "Y", owner)
        if len(Y.shape) != 2:
            raise ValueError(f"{owner}: Y must be a matrix, got shape {tuple(Y.shape)}")
        self.data = Data(Y.tocsr() if arrays.is_sparse(Y) else Y)

    def __repr__(self) -> str:
        n, p = self.data.shape
        return f"MatrixFactorization({n} x {p}, codes={self.codes!r}, dictionary={self.dictionary!r})"

    def factors(self, z: Blocks) -> tuple[Array, Array]:
        """``D`` and ``W``, checked."""
        n, p = self.data.shape
        D = get_block(z, self.dictionary, (n, "m"), "MatrixFactorization")
        W = get_block(z, self.codes, (p, "m"), "MatrixFactorization")
        if D.shape[1] != W.shape[1]:
            raise ValueError(
                f"blocks {self.dictionary!r} and {self.codes!r} of MatrixFactorization must have the same number of "
                f"columns, got {D.shape[1]} and {W.shape[1]}"
            )
        if arrays.is_sparse(D):
            raise TypeError(f"block {self.dictionary!r} of MatrixFactorization must be dense, only codes may be CSR")
        return D, W

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        return self.restrict(self.dictionary, z).value(z[self.dictionary])

    def restrict(self, block: str, z: Blocks) -> AnchoredFactor | GramFactor | WeightedFactor:
        """``H`` as a function of one factor."""
        self.require(block)
        D, W = self.factors(z)
        if self.weights is not None:
            return WeightedFactor(self, block, z)
        if arrays.is_sparse(self.data.values):
            return GramFactor(self, block, z)
        n, p = self.data.shape
        m = D.shape[1]
        double = arrays.unit_roundoff(D) < 1e-12
        if double and not arrays.is_sparse(W) and 2 * m * (n + p) < n * p:
            return GramFactor(self, block, z)  # few columns: half the work, and float64 has digits to spare
        return AnchoredFactor(self, block, z)


def _checked_weights(weights: Any, name: str, owner: str) -> Array:
    weights = checked_data(weights, name, owner)
    if arrays.is_sparse(weights):
        raise TypeError(f"{owner}: {name} must be a dense array, got a sparse one; use .toarray()")
    if float(np.min(arrays.host(weights))) < 0.0:
        raise ValueError(f"{owner}: {name} must not be negative")
    if float(np.max(arrays.host(weights))) == 0.0:
        raise ValueError(f"{owner}: {name} leaves no entry of Y")
    return weights


def _without_missing(Y: Any, weights: Array, name: str, owner: str) -> Array:
    """``Y`` with zeros where its weight is zero: NaN may mark a missing entry."""
    Y = Y if hasattr(Y, "shape") else np.asarray(Y)
    if tuple(Y.shape) != tuple(weights.shape):
        raise ValueError(f"{owner}: {name} must have the shape of Y, {tuple(Y.shape)}, got {tuple(weights.shape)}")
    if isinstance(Y, np.ndarray):
        return np.where(arrays.host(weights) > 0.0, Y, np.zeros((), Y.dtype))
    xp = arrays.namespace(Y)
    known = xp.asarray(arrays.host(weights) > 0.0)
    return xp.where(known, Y, xp.zeros_like(Y))
