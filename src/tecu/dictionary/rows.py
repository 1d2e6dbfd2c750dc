"""Samples by slices: the same view of a dense array, a CSR array, a memory map or a lazy array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import inner

PIECE = 4096  # samples read at a time when all of them are gone through


class Rows:
    """``rows[piece]`` is a dense, contiguous block of samples in one precision, whatever holds them.

    >>> import numpy as np
    >>> Rows(np.arange(6).reshape(3, 2), dtype=np.float32)[1:3].tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    """

    def __init__(self, X: Any, dtype: Any = None) -> None:
        if arrays.is_sparse(X) and X.format != "csr":
            X = X.tocsr()
        self.X = X
        self.dtype = np.dtype(X.dtype if dtype is None else dtype)
        self.shape: tuple[int, int] = (int(X.shape[0]), int(X.shape[1]))

    def __repr__(self) -> str:
        return f"{self.shape[0]} samples x {self.shape[1]} features"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, piece: Any) -> np.ndarray[Any, Any]:
        part = arrays.dense(self.X[piece])
        return np.require(part, self.dtype, ["C", "W"])  # for arrays that cannot be written kernels are compiled anew

    def require_precision(self) -> None:
        """Refuse samples that the precision cannot hold; those that it was given are finite."""
        if self.dtype == self.X.dtype:
            return
        limit = np.finfo(self.dtype).max
        if any(np.max(np.abs(arrays.host(self.X[piece])), initial=0.0) > limit for piece in self.pieces()):
            raise ValueError(
                f"X has numbers beyond {limit:.3g}, which {self.dtype}, the model's precision, cannot hold"
            )

    def require_squares(self, small: bool = True) -> None:
        """Refuse samples whose squares leave the range of numbers: all codes would be the same to them.

        Not ``small``: only those that leave it at its upper end.
        """
        largest = max((float(abs(self.X[piece]).max()) for piece in self.pieces()), default=0.0)
        require_squares(largest, self.shape[1], self.dtype, small)

    def pieces(self, size: int = PIECE) -> list[slice]:
        """All samples in slices."""
        return [slice(a, min(a + size, len(self))) for a in range(0, len(self), size)]

    def square(self) -> float:
        """``||X||^2``, summed in float64; sparse samples, which may be very wide, stay sparse."""
        if arrays.is_sparse(self.X):
            values = arrays.canonical(self.X).data.astype(self.dtype, copy=False)
            return inner(values, values)
        return float(sum(inner(block, block) for block in (self[piece] for piece in self.pieces())))


def require_squares(largest: float, features: int, dtype: np.dtype[Any], small: bool = True) -> None:
    """The same for samples of which the largest number, in size, is known."""
    limits = np.finfo(dtype)
    fits = largest <= np.sqrt(float(limits.max) / features / 8.0)
    if fits and not (small and is_tiny(largest, dtype)):
        return
    raise ValueError(
        f"the largest number of X is {largest:.3g}, and squares of such numbers leave the range of {dtype}; "
        f"{'divide' if not fits else 'multiply'} X by a number before fit and transform"
    )


def is_tiny(largest: float, dtype: np.dtype[Any]) -> bool:
    """Whether the squares of samples are lost where this is their largest number."""
    return 0.0 < largest < 256.0 * math.sqrt(float(np.finfo(dtype).tiny))
