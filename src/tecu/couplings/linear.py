"""A linear inverse problem in one block."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu import arrays, lipschitz
from tecu.arrays import Array
from tecu.couplings.base import (
    BlockCoupling,
    Data,
    QuadraticRestricted,
    checked_data,
    checked_names,
    get_block,
    residual_magnitude,
)
from tecu.couplings.diagonal import quadratic_weight
from tecu.protocols import Blocks, Memory, Term


class Linear(BlockCoupling):
    r"""``H(x) = 1/2 ||A x - b||^2``.

    Parameters
    ----------
    operator
        ``A``: a matrix (dense of any kind, or SciPy sparse), or anything with ``shape``, ``matvec`` and ``rmatvec`` (a
        SciPy or PyLops ``LinearOperator``), which then works on NumPy vectors.
    data
        ``b``, of any shape; it is ravelled.
    block
        The name of the block ``x``. It may have any shape; ``A`` acts on it ravelled (row by row).

    Notes
    -----
    The constant ``||A||_2^2`` comes from a power iteration, warm-started from visit to visit, with one percent on top.
    A dense ``A`` has an exact minimiser for ``Zero`` and ``SquaredL2``.

    Examples
    --------
    >>> import numpy as np
    >>> H = Linear(np.array([[2.0, 0.0], [0.0, 1.0]]), data=np.array([2.0, 2.0]))
    >>> H.grad("x", {"x": np.ones(2)}).tolist()
    [0.0, -1.0]
    """

    def __init__(self, operator: Any, data: Any, block: str = "x") -> None:
        owner = type(self).__name__
        self.blocks = checked_names(owner, block=block)
        vector = checked_data(data, "data", owner)
        if arrays.is_sparse(vector):
            vector = vector.toarray()
        self.data = Data(arrays.namespace(vector).reshape(vector, (-1,)))
        self.matrix: Data | None = None
        self.operator = operator
        if not (hasattr(operator, "matvec") and hasattr(operator, "rmatvec")):
            operator = checked_data(operator, "operator", owner)
            self.matrix = Data(operator.tocsr() if arrays.is_sparse(operator) else operator)
        shape = tuple(operator.shape)
        if len(shape) != 2:
            raise ValueError(f"{owner}: operator must be a matrix or have matvec and rmatvec, got shape {shape}")
        if shape[0] != self.data.shape[0]:
            raise ValueError(f"{owner}: operator has {shape[0]} rows, but data has {self.data.shape[0]} entries")
        self.columns = int(shape[1])

    def __repr__(self) -> str:
        return f"Linear({self.data.shape[0]} x {self.columns}, block={self.blocks[0]!r})"

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        (block,) = self.blocks
        return self.restrict(block, z).value(z[block])

    def restrict(self, block: str, z: Blocks) -> LinearBlock:
        """``H`` as a function of its block."""
        self.require(block)
        if block in z and int(np.prod(z[block].shape)) != self.columns:
            raise ValueError(
                f"block {block!r} of Linear must have {self.columns} entries, the columns of the operator, "
                f"got shape {tuple(z[block].shape)}"
            )
        get_block(z, block, z[block].shape if block in z else (), "Linear")
        return LinearBlock(self, block, z)


class LinearBlock(QuadraticRestricted):
    """``1/2 ||A u - b||^2``; the gradient is ``A^T (A u - b)``."""

    def __init__(self, coupling: Linear, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.like: Array = z[block]
        self.data: Array = coupling.data.like(self.like)
        self.observed = coupling.data
        self.operator = coupling.operator
        self.matrix: Array | None = None if coupling.matrix is None else coupling.matrix.like(self.like)

    def forward(self, u: Array) -> Array:
        """``A u``."""
        flat = arrays.namespace(u).reshape(u, (-1,))
        if self.matrix is not None:
            return self.matrix @ flat
        return arrays.from_numpy(np.asarray(self.operator.matvec(arrays.host(flat))).reshape(-1), self.like)

    def adjoint(self, r: Array) -> Array:
        """``A^T r``, in the shape of the block."""
        if self.matrix is not None:
            flat = self.matrix.T @ r
        else:
            flat = arrays.from_numpy(np.asarray(self.operator.rmatvec(arrays.host(r))).reshape(-1), self.like)
        return arrays.namespace(flat).reshape(flat, tuple(self.like.shape))

    def value(self, u: Array) -> float:
        """``H(u)``."""
        misfit = self.forward(u) - self.data
        return 0.5 * arrays.inner(misfit, misfit)

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return self.adjoint(self.forward(u) - self.data)

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the gradient."""
        misfit = self.forward(u) - self.data
        return 0.5 * arrays.inner(misfit, misfit), self.adjoint(misfit)

    def hessian(self, v: Array) -> Array:
        """``A^T A v``."""
        return self.adjoint(self.forward(v))

    def lipschitz(self, memory: Memory) -> float:
        """``||A||_2^2``."""
        size = int(np.prod(self.like.shape))
        start = arrays.from_numpy(lipschitz.start_vector(size).reshape(tuple(self.like.shape)), self.like)
        return lipschitz.power_iteration(self.hessian, start, memory)

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser for ``Zero`` and ``SquaredL2`` with a dense matrix."""
        weight = quadratic_weight(term)
        if weight is None or self.matrix is None or arrays.is_sparse(self.matrix):
            return None
        previous, A = self.z[self.block], arrays.host(self.matrix)
        # Least squares with the quadratic terms as further rows: A^T A would square the condition number.
        root = np.sqrt(np.asarray([weight, eta], dtype=A.dtype))
        eye = np.eye(A.shape[1], dtype=A.dtype)
        flat = arrays.host(previous).reshape(-1)
        rows = np.concatenate([A, root[0] * eye, root[1] * eye])
        right = np.concatenate([arrays.host(self.data) - A @ flat, -root[0] * flat, np.zeros_like(flat)])
        step = np.linalg.lstsq(rows, right, rcond=None)[0].reshape(tuple(previous.shape))
        return previous + arrays.from_numpy(step, previous)

    def magnitude(self, value: float) -> float:
        """The value, and what the rounding of ``A x - b`` adds to it."""
        return residual_magnitude(value, self.observed, self.like)
