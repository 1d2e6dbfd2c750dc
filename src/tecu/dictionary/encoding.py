"""Codes of new samples for a dictionary that is given, and the samples that codes stand for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array

from tecu.arrays import inner, is_elsewhere, is_sparse
from tecu.dictionary.coding import Matrix
from tecu.dictionary.embedded import DescendedCodes, strategy_of
from tecu.dictionary.exchange import exchanged
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.totals import half_misfit
from tecu.dictionary.workers import Workers

ALIKE = 1.75
"""From this :func:`likeness` on, exchanging atoms pays: planted dictionaries have 1, those of patches 1.4 to 2.1, of
digits 2."""

PIECE = 1024
"""Samples at a time, at least."""

NEXT_TO_NOTHING = 1e-5
"""The share of an objective that rounding may take."""


def encoded(rows: Rows, components: Matrix, coder: Coder, team: Workers) -> Any:
    """Codes (CSR) of all samples: each greedily, then atoms are inserted, dropped and exchanged while that pays.

    Where atoms are much alike, as those of photos and digits are, exchanging ends at 0.92 to 0.94 of the objective of
    greedy codes, in five to eight times their time (``python -m benchmarks dictionary --only codes``). Where they are
    no more alike than random ones there is next to nothing to gain: with a penalty alone it is left out there.
    """
    from scipy.sparse import csr_array, vstack

    D = np.ascontiguousarray(components)
    m, n = D.shape
    gram = team.product(D, D.T)
    strategy = strategy_of(coder, min(n, m))
    pays = isinstance(strategy, DescendedCodes) or likeness(gram, n) > ALIKE
    fine = gram
    if pays and D.dtype != np.float64:
        fine = team.product(D.astype(np.float64), D.T.astype(np.float64))
    begin = strategy.from_scratch if isinstance(strategy, DescendedCodes) else strategy.from_greedy
    if isinstance(strategy, DescendedCodes) and coder.n_nonzero is not None:
        begin = strategy.greedy_code  # the exchange begins with a refit

    def code(shift: int, piece: slice) -> Any:
        Y = rows[shift + piece.start : shift + piece.stop]
        start = begin(Y, D, gram)
        return exchanged(Y, D, fine, start, coder) if pays else start

    parts = []
    for piece in _pieces(rows, m):
        parts += team.map(partial(code, piece.start), piece.stop - piece.start)
    return csr_array(vstack(parts, format="csr"))


def likeness(gram: Matrix, n_features: int) -> float:
    """The mean ``|cosine|`` of two atoms, as a multiple of that of random directions, ``sqrt(2 / (pi n))``.

    >>> likeness(np.array([[1.0, 0.5], [0.5, 1.0]]), 200) > 8
    True
    """
    m = len(gram)
    apart = float(np.sum(np.abs(gram)) - np.sum(np.abs(np.diagonal(gram)))) / max(1, m * (m - 1))
    return apart / math.sqrt(2.0 / (math.pi * n_features))


def _pieces(rows: Rows, atoms: int) -> list[slice]:
    """Samples to have in memory as a dense block."""
    return rows.pieces(max(PIECE, atoms))


def half_misfits(rows: Rows, codes: Any, components: Matrix) -> Iterator[float]:
    """``1/2 ||X - codes @ components||^2``, piece by piece, of the arrays as they are: in float64.

    A single sample of 1e8 leaves more rounding in float32 than all others have misfit.
    """
    D = np.ascontiguousarray(components, np.float64)
    return (_half_misfit(rows[piece], codes[piece], D) for piece in _pieces(rows, len(D)))


def _half_misfit(Y: Matrix, codes: Any, D: Matrix) -> float:
    if Y.dtype == codes.dtype == D.dtype:
        return half_misfit(Y, codes, D)
    misfit = codes @ D - Y  # in float64 by NumPy: no kernel is compiled for a mixture
    return 0.5 * inner(misfit, misfit)


def objective_of(rows: Rows, square: float, codes: Any, components: Matrix, penalty: float, found: float) -> float:
    """``penalty nnz(codes) + 1/2 ||X - codes @ components||^2`` of the arrays as they are; ``square`` is ``||X||^2``.

    ``found`` is the same with misfits ``R`` rounded to the precision of the data, by some ``4 r ||X||``, ``r`` the unit
    round-off: the misfit is then off by a share of ``8 r ||X|| / ||R||``. Where that is next to nothing it is taken. Of
    sparse samples it may be a difference of sums as large as ``||X||^2``, and off by that ratio once more.
    """
    half_square = max(0.0, found - penalty * int(codes.nnz))
    rounding, least = 4 * float(np.finfo(components.dtype).eps) * math.sqrt(0.5 * square), math.sqrt(half_square)
    if is_sparse(rows.X):
        rounding, least = rounding * math.sqrt(0.5 * square), half_square
    if rounding <= NEXT_TO_NOTHING * least:
        return found
    return penalty * int(codes.nnz) + math.fsum(half_misfits(rows, codes, components))


def score_of(half_misfits: Iterable[float], codes: Any, penalty: float) -> float:
    """Minus the mean objective of a sample, from half the squared misfits of all pieces."""
    return -(penalty * int(codes.nnz) + math.fsum(half_misfits)) / int(codes.shape[0])


def decoded(codes: Any, components: Matrix) -> Matrix:
    """``codes @ components``, checked."""
    if is_elsewhere(codes):
        raise ValueError(
            "codes in chunks stay where they were made; bring them here chunk by chunk: "
            "[model.inverse_transform(part) for part in codes]"
        )
    codes = check_array(codes, accept_sparse="csr", dtype=[np.float64, np.float32])
    if codes.shape[1] != len(components):
        raise ValueError(f"codes has {codes.shape[1]} columns, but the dictionary has {len(components)} atoms")
    return np.asarray(codes @ components)
