"""Sparse coding and column sweeps for whole batches: the compiled kernels behind plain calls.

Samples and atoms are rows: ``Y`` samples x features, ``D`` atoms x features, codes samples x atoms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from tecu.dictionary.workers import Workers

Matrix = np.ndarray[Any, Any]

PIVOT = 1e-3
"""An atom whose squared distance to the span of those already chosen is below this adds nothing but noise."""

LARGE_TOTALS = 40  # totals between 2^-40 and 2^40 are taken as they are
SWEEP_BLOCK = 64
"""Atoms between two matrix products of a column sweep."""

BLOCKS_A_MEETING = 3
"""Such blocks between two meetings of threads."""

ALONE = Workers(1)


@dataclass(frozen=True)
class Codes:
    """Sparse rows of equal capacity: row ``i`` has ``counts[i]`` entries ``values[i, :]`` at ``indices[i, :]``."""

    indices: Matrix
    values: Matrix
    counts: Matrix

    @classmethod
    def empty(cls, samples: int, capacity: int, dtype: Any) -> Codes:
        """Room for ``capacity`` entries a row."""
        shape = (samples, capacity)
        return cls(np.empty(shape, np.int32), np.empty(shape, dtype), np.zeros(samples, np.int32))

    def csr(self, n_components: int) -> Any:
        """The same codes as a CSR array, without entries that are zero."""
        from scipy.sparse import csr_array

        longest = int(self.counts.max(initial=0))
        values, indices = self.values[:, :longest], self.indices[:, :longest]
        used = (np.arange(longest) < self.counts[:, None]) & (values != 0)
        starts = np.zeros(len(self.counts) + 1, dtype=np.int32)
        np.cumsum(used.sum(axis=1), out=starts[1:])
        codes = csr_array((values[used], indices[used], starts), shape=(len(self.counts), n_components))
        codes.has_canonical_format = True
        return codes


def sign_mask(dtype: Any, positive: bool) -> Any:
    """What the argmax of a kernel keeps of a float's bits: all but the sign, or all when codes must be positive."""
    integer = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    return integer(-1) if positive else integer(np.iinfo(integer).max)


def greedy(
    correlations: Matrix,
    gram: Matrix,
    *,
    stop: float,
    penalty: float = 0.0,
    cap: int,
    positive: bool = False,
) -> Codes:
    """Orthogonal matching pursuit for each row of ``correlations`` (destroyed).

    A path ends at ``cap`` atoms or when the next one lowers ``1/2 ||y - D'w||^2`` by no more than ``stop``; of the
    path, the
    prefix with the least ``1/2 ||y - D'w||^2 + penalty ||w||_0`` is kept.
    """
    codes, _ = _coded(
        correlations,
        gram,
        _no_codes(len(correlations), correlations.dtype),
        stop,
        penalty,
        cap,
        0.0,
        2,
        positive,
        False,
    )
    return codes


@lru_cache(maxsize=16)
def _no_codes(samples: int, dtype: Any) -> tuple[Matrix, Matrix, Matrix]:
    return np.zeros(samples + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, dtype)


def _coded(
    correlations: Matrix,
    gram: Matrix,
    old: tuple[Matrix, Matrix, Matrix],
    stop: float,
    penalty: float,
    cap: int,
    shift: float,
    restart: int,
    positive: bool,
    polished: bool,
) -> tuple[Codes, Matrix]:
    """The kernel's codes from old ones (``indptr``, ``indices``, ``data``), and its report."""
    from tecu.dictionary.kernels_polish import codes_of

    number = correlations.dtype.type
    cap = max(1, min(cap, len(gram)))
    codes = Codes.empty(len(correlations), cap, number)
    report = np.empty((len(correlations), 2))
    spare = np.empty(len(gram), number)
    mask = sign_mask(number, positive)
    codes_of(
        gram, number(shift), correlations, *old, mask, float(stop), float(penalty), cap, PIVOT, restart, polished,
        spare, spare.view(mask.dtype), codes.indices, codes.values, codes.counts, report,
    )  # fmt: skip
    return codes, report


@dataclass(frozen=True)
class Polished:
    """Codes, and what the kernel knows of them: ``q(new) - q(old)``, how many are not settled."""

    codes: Any
    change: float
    unsettled: int


def polish(
    correlations: Matrix,
    gram: Matrix,
    old: Any,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    restart: int = 1,
) -> Polished:
    """Refit, drop and insert from the supports of ``old`` (CSR) and from greedy ones; the better code of each sample.

    It minimises ``q(w) = 1/2 w'Gw - c'w + shift/2 ||w - old||^2 + penalty ||w||_0``. ``correlations`` is changed.
    """
    codes, report = _coded(
        correlations, gram, (old.indptr, old.indices, old.data), penalty, penalty, cap, shift, restart, False, True
    )
    change, settled = report.sum(axis=0)
    return Polished(codes.csr(len(gram)), float(change), len(report) - int(settled))


def descend(
    correlations: Matrix,
    gram: Matrix,
    old: Any,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    lower: float = -np.inf,
    upper: float = np.inf,
    moves: int = 1000,
    accuracy: float = 1e-7,
) -> Any:
    """Exact coordinate descent from ``old`` (CSR) over a box, at most ``cap`` non-zeros. ``correlations`` is
    changed."""
    from tecu.dictionary.kernels_descend import descend_codes

    number = correlations.dtype.type
    codes = Codes.empty(len(correlations), len(gram), number)
    descend_codes(
        gram, number(shift), correlations, old.indptr, old.indices, old.data, float(penalty), min(cap, len(gram)),
        float(lower), float(upper), moves, accuracy, codes.indices, codes.values, codes.counts,
    )  # fmt: skip
    return codes.csr(len(gram))


def sweep(
    D: Matrix,
    previous: Matrix,
    A: Matrix,
    B: Matrix,
    eta: float = 0.0,
    ball: bool = False,
    team: Workers = ALONE,
    folded: bool = False,
) -> float:
    """One pass of exact minimisation over the atoms, in place; returns by how much the objective fell.

    Atom ``j`` becomes the minimiser of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - previous||^2`` over the unit sphere (or
    ball), the others held. Blocks of atoms share one matrix product: the same iterates, faster. Threads take several
    blocks at a time, so that they meet less often. ``folded`` says that ``A`` is folded into its upper triangle.
    """
    from tecu.dictionary.kernels_atoms import sweep_block

    exponent = int(np.frexp(np.max(np.abs(B), initial=0.0))[1])
    if abs(exponent) > LARGE_TOTALS:  # lengths would leave the range of float32; a power of two changes nothing else
        A, B = (np.ldexp(total, -exponent) for total in (A, B))
        return float(np.ldexp(sweep(D, previous, A, B, math.ldexp(eta, -exponent), ball, team, folded), exponent))
    m, number = len(D), D.dtype.type
    size = SWEEP_BLOCK * (1 if team.count == 1 else BLOCKS_A_MEETING)
    descent = 0.0
    for first in range(0, m, size):
        end = min(first + size, m)
        if folded:
            half = 0.5 * A[first:end, first:end]
            inside, place = half + half.T, 0
        else:
            inside, place = A, first
        U = team.by_columns(partial(_slopes, D, A, B, inside, slice(first, end), folded), D)
        before = D[first:end].copy()
        for a in range(0, end - first, SWEEP_BLOCK):
            b = min(a + SWEEP_BLOCK, end - first)
            descent += sweep_block(D, previous, first + a, U[a:b], inside, place + a, number(eta), ball)
            if b < end - first:  # what the later blocks of this meeting have to know of it
                U[b:] -= inside[place + b : place + end - first, place + a : place + b] @ (
                    D[first + a : first + b] - before[a:b]
                )
    return descent


def _slopes(D: Matrix, A: Matrix, B: Matrix, inside: Matrix, J: slice, folded: bool, columns: slice) -> Matrix:
    """``B_J - A_J D`` for some features."""
    d = D[:, columns]
    product: Matrix
    if not folded:
        product = A[J] @ d
    else:  # off the diagonal a folded matrix holds twice the entry, once
        product = A[: J.start, J].T @ d[: J.start]
        product += A[J, J.stop :] @ d[J.stop :]
        product *= D.dtype.type(0.5)
        product += inside @ d[J]
    np.subtract(B[J, columns], product, out=product)
    return product
