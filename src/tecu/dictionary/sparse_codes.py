"""``H = 1/2 ||Y - D W'||^2`` with sparse codes ``W``: the prox-linear step piece by piece, in the processor's cache.

The gradient of the codes is the largest array of a run by far, and nearly all of it is thrown away by the threshold. So
a piece of it is computed, thresholded and forgotten before the next one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tecu import arrays, terms
from tecu.couplings import MatrixFactorization
from tecu.couplings.factor_blocks import AnchoredFactor, GramFactor
from tecu.couplings.weighted_factor import WeightedFactor
from tecu.dictionary.coding import Matrix, sign_mask
from tecu.dictionary.workers import Workers
from tecu.protocols import Blocks, ProxStep, Term

PIECE = 1 << 18
"""Entries of the gradient at a time."""


class SparseFactorization(MatrixFactorization):
    """:class:`tecu.couplings.MatrixFactorization` whose sparse codes have a prox-linear step of their own.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> H = SparseFactorization(np.eye(2))
    >>> codes = H.restrict("W", {"W": csr_array((2, 1)), "D": np.array([[1.0], [0.0]])})
    >>> codes.prox_linear(terms.L0(0.1), gamma=1.0).u.toarray().tolist()
    [[1.0], [0.0]]
    """

    def __init__(self, Y: Any, *, lipschitz: Any = "power", team: Workers | None = None) -> None:
        super().__init__(Y, lipschitz=lipschitz)
        self._team = team or Workers(1)

    def restrict(self, block: str, z: Blocks) -> AnchoredFactor | GramFactor | WeightedFactor:
        """``H`` as a function of one factor."""
        restricted = super().restrict(block, z)
        if block == self.codes and type(restricted) is AnchoredFactor and arrays.is_sparse(z[block]):
            return SparseCodes(self, block, z, self._team)
        return restricted


class SparseCodes(AnchoredFactor):
    """``H`` as a function of sparse codes."""

    def __init__(self, coupling: SparseFactorization, block: str, z: Blocks, team: Workers) -> None:
        super().__init__(coupling, block, z)
        self.team = team

    def prox_linear(self, term: Term, gamma: float) -> ProxStep | None:
        """The step for ``L0``; the pieces are shared out to the threads."""
        from scipy.sparse import csr_array

        previous = self.z[self.block]
        if type(term) is not terms.L0 or not previous.has_canonical_format:
            return None
        self.value(previous)  # the misfit at the anchor
        misfit = self._misfit
        if misfit is None:  # the gradient is there already
            return None
        residual = np.ascontiguousarray(misfit.T)
        parts = self.team.map(
            lambda rows: _hard_step(residual[rows], self.factor, previous, rows, term, gamma), len(residual)
        )
        indices, values, counts = (np.concatenate([part[i] for part in parts]) for i in range(3))
        starts = np.zeros(len(residual) + 1, previous.indptr.dtype)
        np.cumsum(counts, out=starts[1:])
        u = csr_array((values, indices, starts), shape=previous.shape)
        u.has_canonical_format = True
        slope, square = (math.fsum(part[i] for part in parts) for i in (3, 4))
        return ProxStep(u, slope, math.sqrt(square))


def _hard_step(residual: Matrix, D: Matrix, codes: Any, rows: slice, term: terms.L0, gamma: float) -> tuple[Any, ...]:
    """Indices, values and row lengths of the new codes of some samples, ``<gradient, move>`` and ``||move||^2``."""
    from tecu.dictionary.kernels_threshold import BLOCK, hard_step

    number = residual.dtype.type
    m = D.shape[1]
    size = max(1, PIECE // m)
    mask = sign_mask(number, positive=False)
    threshold = number(math.sqrt(2 * term.weight) * math.sqrt(1 / gamma))
    least = np.asarray(threshold * gamma * (1 - 1e-5), number).view(mask.dtype)[()]
    tile = np.empty((size, m), number)
    indices, values = np.empty(tile.size, codes.indices.dtype), np.empty(tile.size, number)
    ends = np.zeros(size + 1, codes.indptr.dtype)
    scratch = np.empty(m, number), np.empty(m // BLOCK + 1, mask.dtype)
    pieces, found, sums = [], np.empty(2), np.zeros(2)
    for first in range(0, len(residual), size):
        part = residual[first : first + size]
        gradient = np.matmul(part, D, out=tile[: len(part)])
        count = hard_step(
            codes.indptr, codes.indices, codes.data, rows.start + first, gradient, gradient.view(mask.dtype), mask,
            least, -1.0 / gamma, threshold, indices, values, ends[1:], *scratch, found,
        )  # fmt: skip
        pieces.append((indices[:count].copy(), values[:count].copy(), np.diff(ends[: len(part) + 1])))
        sums += found
    return *(np.concatenate([piece[i] for piece in pieces]) for i in range(3)), *sums.tolist()
