"""Codes of new samples: from a greedy code, atoms are exchanged one by one as long as that pays.

``fit`` comes back to each sample in every sweep, with another dictionary, and so exchanges atoms by and by; a new
sample is seen once. Moves are judged in float64: of data with an offset, float32 leaves too little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.coding import Codes, Matrix, exact_pivot
from tecu.dictionary.online import Coder

LONGEST = 64
"""A code of more atoms is left as it is, and none becomes longer: to compare all exchanges takes their square."""

MOVES, ACCURACY = 50, 1e-10
"""Moves a sample, at most, and what one must gain at least, as a share of ``|q|``."""

SHORT = 3
"""Codes of so many atoms are looked for from two starts: one exchange is much of them, and many supports are final."""

TRIES, CANDIDATES = 8, 3
"""Within bounds: atoms of a code that are tried to be dropped, and atoms that are tried in the place of each."""


def exchanged(Y: Matrix, D: Matrix, gram: Matrix, start: Any, coder: Coder) -> Any:
    """For each sample the better of the code ``start`` (CSR) and what exchanges make of it; ``gram`` in float64."""
    Y64, D64 = np.asarray(Y, np.float64), np.asarray(D, np.float64)
    cap = min(coder.n_nonzero or len(D), LONGEST, len(D))
    codes = Codes.empty(len(Y), cap, np.float64)
    written = (codes.indices, codes.data, codes.indptr[1:])
    if coder.lower == -np.inf and coder.upper == np.inf:
        from tecu.dictionary.kernels_exchange import exchange_codes

        short, attempts = min(cap, D.shape[1]), 2 if (coder.n_nonzero or np.inf) <= SHORT else 1
        exchange_codes(
            gram, Y64 @ D64.T, 0.5 * np.einsum("ij,ij->i", Y64, Y64), start.indptr, start.indices, float(coder.penalty),
            short, exact_pivot(start.dtype), MOVES, attempts, ACCURACY, *written,
            np.empty((short + 4, short)), np.empty((short + 4, len(D))), np.empty((2, short), np.int32),
        )  # fmt: skip
    else:
        from tecu.dictionary.kernels_within import exchange_within

        exchange_within(
            gram, Y64 @ D64.T, start.indptr, start.indices, start.data.astype(np.float64), float(coder.penalty), cap,
            float(coder.lower), float(coder.upper), MOVES, TRIES, CANDIDATES, ACCURACY, *written,
            np.empty((cap + 5, cap)), np.empty((2, len(D))), np.empty((3, cap), np.int32), np.empty(cap, bool),
            np.empty(cap, np.int64),
        )  # fmt: skip
    found = codes.csr(len(D)).astype(start.dtype)
    return better_rows(found, start, *(values(Y64, D64, some, coder.penalty) for some in (found, start)))


def values(Y: Matrix, D: Matrix, codes: Any, penalty: float) -> Matrix:
    """``penalty ||w||_0 + 1/2 ||y - w D||^2`` of each sample."""
    misfit = Y - codes @ D
    return np.asarray(0.5 * np.einsum("ij,ij->i", misfit, misfit) + penalty * np.diff(codes.indptr))


def better_rows(first: Any, second: Any, value_of_first: Matrix, value_of_second: Matrix) -> Any:
    """Row by row the code with the lower value, as CSR; the second where they are equal.

    >>> from scipy.sparse import csr_array
    >>> better_rows(csr_array([[1.0], [2.0]]), csr_array([[3.0], [4.0]]), np.array([0, 1]), np.array([1, 0])).toarray()
    array([[1.],
           [4.]])
    """
    from scipy.sparse import csr_array, vstack

    keep = value_of_first < value_of_second
    if np.all(keep):
        return first
    rows = np.where(keep, np.arange(len(keep)), np.arange(len(keep)) + len(keep))
    return csr_array(vstack([first, second], format="csr")[rows])
