"""Sparse coding of whole batches: the compiled kernels behind plain calls.

Samples and atoms are rows: ``Y`` samples x features, ``D`` atoms x features, codes samples x atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from tecu.dictionary.compiled import address_of_gemm
from tecu.dictionary.workers import Workers

Matrix = np.ndarray[Any, Any]

PIVOT = 1e-3
"""An atom whose squared distance to the span of those already chosen is below this adds nothing but noise."""

DEPENDENT = 64.0, 1e-8
"""The same where codes are to be exact, in units of the last place, and at least: below it is rounding alone."""

LARGEST_REFIT = 256
"""Atoms that coordinate descent refits together, at most: the work grows with the third power of their number."""

TILE = 1 << 19
"""Correlations at a time."""

ENTRIES = 1 << 20
"""Room for so many entries of codes at a time."""

ALONE = Workers(1)


@dataclass(frozen=True)
class Codes:
    """What a CSR array holds, by the same names, and nothing of what one costs; indices are sorted."""

    indptr: Matrix
    indices: Matrix
    data: Matrix

    @classmethod
    def empty(cls, samples: int, capacity: int, dtype: Any) -> Codes:
        """Room for ``capacity`` entries a row."""
        room = samples * capacity
        return cls(np.zeros(samples + 1, np.int32), np.empty(room, np.int32), np.empty(room, dtype))

    @classmethod
    def rows_of(cls, codes: Any, rows: slice) -> Codes:
        """Some rows of a CSR array, without a copy."""
        ends = codes.indptr[rows.start : rows.stop + 1]
        entries = slice(ends[0], ends[-1])
        return cls(ends - ends[0], codes.indices[entries], codes.data[entries])

    def csr(self, n_components: int) -> Any:
        """The same codes as a CSR array."""
        from scipy.sparse import csr_array

        own = self if len(self.data) == self.indptr[-1] else self.trimmed()
        codes = csr_array((own.data, own.indices, own.indptr), shape=(len(own.indptr) - 1, n_components))
        codes.has_canonical_format = True
        return codes

    def trimmed(self) -> Codes:
        """The same without room for more."""
        count = int(self.indptr[-1])
        return Codes(self.indptr, self.indices[:count].copy(), self.data[:count].copy())

    def clipped(self, lower: float, upper: float) -> Codes:
        """Cut to bounds; what becomes zero goes."""
        if lower == -np.inf and upper == np.inf:
            return self
        entries = slice(self.indptr[0], self.indptr[-1])
        data = np.clip(self.data[entries], lower, upper)
        used = data != 0
        indptr = np.concatenate([[0], np.cumsum(used)])[self.indptr - self.indptr[0]].astype(np.int32)
        return Codes(indptr, self.indices[entries][used], data[used])


@lru_cache(maxsize=8)
def sign_mask(dtype: Any, positive: bool) -> Any:
    """What the argmax of a kernel keeps of a float's bits: all but the sign, or all when codes must be positive."""
    integer = np.int32 if np.dtype(dtype).itemsize == 4 else np.int64
    return integer(-1) if positive else integer(np.iinfo(integer).max)


class Coding:
    """Codes of some samples in the making: threads that take part code one tile of them after the other.

    Of each sample, ``c = D y``, it lowers ``q(w) = 1/2 w'Gw - c'w + shift/2 ||w - old||^2 + penalty ||w||_0``,
    ``G = gram``, from the supports of ``old`` (CSR or ``None``) and from none. ``tiles`` are slices of the samples, one
    after the other; whoever takes part, the codes are the same.
    """

    def __init__(
        self,
        Y: Matrix,
        D: Matrix,
        gram: Matrix,
        old: Any,
        tiles: Sequence[slice],
        *,
        stop: float,
        penalty: float,
        cap: int,
        shift: float = 0.0,
        restart: int = 2,
        positive: bool = False,
        polished: bool = False,
        pivot: float = PIVOT,
    ) -> None:
        number, m, samples = D.dtype.type, len(D), len(Y)
        self._cap = max(1, min(cap, m))
        tiles = [tile for tile in tiles if tile.stop > tile.start]
        self._edges = np.array([0, *(tile.stop for tile in tiles)], np.int64)
        self._height, self._D = max((tile.stop - tile.start for tile in tiles), default=0), D
        self._mask, self._number = sign_mask(number, positive), number
        before = _no_codes(samples, number) if old is None else (old.indptr, old.indices, old.data)
        self._given = (
            address_of_gemm(D.itemsize), Y, D, gram, number(shift), *before, self._mask, float(stop), float(penalty),
            self._cap, pivot, restart, polished, self._edges,
        )  # fmt: skip
        self._taken = np.zeros(1, np.int64)
        self._ends, self._places = np.empty(samples, np.int32), np.zeros((len(tiles), 2), np.int64)
        self._changes = np.zeros((len(tiles), 2))
        self._parts: dict[int, Codes] = {}
        self._numbers = count()

    def take_part(self) -> None:
        """Code tiles as long as there are any that nobody has begun."""
        from tecu.dictionary.kernels_polish import codes_of

        cap, number = self._cap, self._number
        scratch, work = room_for_correlations(self._height, self._D), np.empty(len(self._D), number)
        numbers, supports = np.empty((cap + 4, cap)), np.empty((2, cap), np.int32)
        room = max(len(scratch[1]), min(len(self._ends), ENTRIES // cap))
        while self._taken[0] < len(self._places):
            own = next(self._numbers)
            part = self._parts[own] = Codes.empty(room, cap, number)
            codes_of(
                *self._given, self._taken, own, *scratch, work, work.view(self._mask.dtype), numbers, supports,
                part.indices, part.data, self._ends, self._places, self._changes,
            )  # fmt: skip

    def shared_by(self, team: Workers) -> Coding:
        """The same when all samples have their codes."""
        team.each(lambda _: self.take_part(), range(team.count))
        return self

    @property
    def codes(self) -> Codes:
        """All of them, in the order of the samples."""
        from tecu.dictionary.kernels_tiles import collect_entries, number_entries

        indptr, tiles = np.zeros(len(self._ends) + 1, np.int32), (self._edges, self._places)
        number_entries(*tiles, self._ends, indptr)
        indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], self._number)
        for own, part in self._parts.items():
            collect_entries(*tiles, indptr, own, part.indices, part.data, indices, data)
        return Codes(indptr, indices, data)

    @property
    def change(self) -> float:
        """Of ``q``, from the old codes on."""
        return float(np.sum(self._changes[:, 0]))

    @property
    def unsettled(self) -> int:
        """How many codes have an atom that could be dropped or inserted with profit."""
        return len(self._ends) - int(np.sum(self._changes[:, 1]))


def greedy(
    Y: Matrix,
    D: Matrix,
    gram: Matrix,
    *,
    stop: float,
    penalty: float = 0.0,
    cap: int,
    positive: bool = False,
) -> Codes:
    """Orthogonal matching pursuit for each sample of ``Y``, ``gram = D D'``.

    A path ends at ``cap`` atoms or when the next one lowers ``1/2 ||y - D'w||^2`` by no more than ``stop``; of the
    path, the prefix with the least ``1/2 ||y - D'w||^2 + penalty ||w||_0`` is kept.
    """
    tiles = ALONE.tapering(len(Y), tile_height(len(D)))
    coding = Coding(Y, D, gram, None, tiles, stop=stop, penalty=penalty, cap=cap, positive=positive)
    return coding.shared_by(ALONE).codes


def polished(
    Y: Matrix,
    D: Matrix,
    gram: Matrix,
    old: Any = None,
    *,
    penalty: float,
    cap: int,
    shift: float = 0.0,
    restart: int = 1,
    pivot: float = PIVOT,
    team: Workers = ALONE,
) -> Coding:
    """Refit, drop and insert from the supports of ``old`` (CSR or ``None``) and from none; the better code of both."""
    tiles = team.tapering(len(Y), tile_height(len(D)))
    coding = Coding(
        Y, D, gram, old, tiles, stop=penalty, penalty=penalty, cap=cap, shift=shift, restart=restart, polished=True,
        pivot=pivot,
    )  # fmt: skip
    return coding.shared_by(team)


@lru_cache(maxsize=16)
def _no_codes(samples: int, dtype: Any) -> tuple[Matrix, Matrix, Matrix]:
    return np.zeros(samples + 1, np.int32), np.zeros(0, np.int32), np.zeros(0, dtype)


def room_for_correlations(height: int, D: Matrix) -> tuple[Matrix, Matrix]:
    """Scratch of kernels for ``height`` samples and as many atoms and features as ``D`` has.

    It is for samples that are gathered, and for correlations with the atoms. Both have rows for whole groups of them
    (:data:`tecu.dictionary.kernels_code.ROWS`), which BLAS fills.
    """
    from tecu.dictionary.kernels_code import ROWS

    (atoms, features), whole = D.shape, -(-height // ROWS) * ROWS
    some = min(whole, max(1, TILE // features // ROWS) * ROWS)
    return np.empty((some, features), D.dtype), np.empty((whole, atoms), D.dtype)


def exact_pivot(dtype: Any) -> float:
    """:data:`DEPENDENT` in a precision.

    >>> exact_pivot(np.float32) > exact_pivot(np.float64)
    True
    """
    units, least = DEPENDENT
    return max(least, units * float(np.finfo(dtype).eps))


def tile_height(n_components: int) -> int:
    """Samples at a time."""
    return max(1, TILE // n_components)


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

    number, m = correlations.dtype.type, len(gram)
    codes, most = Codes.empty(len(correlations), m, number), min(cap, m, LARGEST_REFIT)
    descend_codes(
        gram, number(shift), correlations, old.indptr, old.indices, old.data, float(penalty), min(cap, m),
        float(lower), float(upper), moves, accuracy, exact_pivot(number), codes.indices, codes.data, codes.indptr[1:],
        np.zeros(m), np.empty(most, np.int32), np.empty((most + 3, most)),
    )  # fmt: skip
    return codes.csr(len(gram))
