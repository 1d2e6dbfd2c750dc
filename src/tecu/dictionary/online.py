"""Dictionary learning batch by batch with totals that forget: the way to a start, and ``partial_fit``.

Loose first: with a bad dictionary a small penalty commits each sample to many wrong atoms, and the dictionary to
them. So
the first passes take only atoms that lower a sample's error by many times the penalty, and totals forget quickly;
both tighten from pass to pass. Such passes need not descend: they come before the first sweep that is certified.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tecu.dictionary.coding import Codes, Matrix, greedy, sweep
from tecu.dictionary.replacement import replace_atoms
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers

log = logging.getLogger("tecu")

GAINS = (16.0, 16.0, 8.0, 4.0)
"""The gain an atom must bring in each pass, in units of the penalty."""

LENGTHS = (0.5, 0.5, 0.75, 1.0)
"""The same for a fixed number of atoms a sample: the share of it that each pass takes."""

MEMORY = (0.3, 0.3, 0.5, 0.8)
"""How far back the totals of each pass reach, as a share of the data."""

BATCH = 1.1
"""Samples between two dictionary updates, as a multiple of the number of atoms."""

SMALLEST_BATCH = 64


@dataclass(frozen=True)
class Coder:
    """How samples are coded: by a penalty or by a number of atoms, within bounds."""

    penalty: float
    n_nonzero: int | None = None
    lower: float = -np.inf
    upper: float = np.inf

    def __call__(
        self, correlations: Matrix, gram: Matrix, cap: int, looseness: float = 1.0, share: float = 1.0
    ) -> Codes:
        """Greedy codes, cut to the bounds."""
        stop = looseness * self.penalty
        if self.n_nonzero is not None:
            cap, stop = max(1, round(share * self.n_nonzero)), 0.0
        codes = greedy(correlations, gram, stop=stop, cap=cap, positive=self.lower >= 0)
        if self.lower > -np.inf or self.upper < np.inf:
            np.clip(codes.values, self.lower, self.upper, out=codes.values)
        return codes


class OnlineDictionary:
    """Atoms (rows of ``D``) with forgetting totals ``A = W'W`` (folded) and ``B = W'Y``."""

    def __init__(self, D: Matrix, coder: Coder, ball: bool = False, team: Workers | None = None) -> None:
        m, n = D.shape
        self.D, self.coder, self.ball = np.array(D, order="C"), coder, ball
        self.folded, self.B = np.zeros((m, m), D.dtype), np.zeros((m, n), D.dtype)
        self._A = np.empty_like(self.folded)
        self.team = team or Workers(1)

    def absorb(self, Y: Matrix, keep: float, looseness: float = 1.0, share: float = 1.0) -> Any:
        """Code a batch, add it to totals of which ``keep`` is kept, sweep over the atoms; returns the codes."""
        from tecu.dictionary.kernels_atoms import add_totals, unfold

        D = self.D
        gram = self.team.product(D, D.T)
        cap = max(1, D.shape[1] // 3)
        parts = self.team.map(lambda piece: self.coder(Y[piece] @ D.T, gram, cap, looseness, share), len(Y))
        codes = _joined(parts).csr(len(D), is_sorted=False)
        self.folded *= keep
        self.B *= keep
        add_totals(codes.indptr, codes.indices, codes.data, Y, 1.0, self.folded, self.B)
        unfold(self.folded, self._A)
        sweep(D, D, self._A, self.B, 0.0, self.ball, self.team)
        return codes

    def forget(self, atoms: Matrix) -> None:
        """Atoms that were replaced begin without a past."""
        self.folded[atoms], self.folded[:, atoms], self.B[atoms] = 0, 0, 0


def _joined(parts: list[Codes]) -> Codes:
    if len(parts) == 1:
        return parts[0]
    return Codes(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values", "counts")))


def loose_start(
    rows: Rows,
    D: Matrix,
    coder: Coder,
    random: np.random.RandomState,
    *,
    ball: bool = False,
    team: Workers | None = None,
    report: Callable[[str], None] = log.info,
) -> tuple[Matrix, int]:
    """A dictionary to start from, by four loose passes over the data, and how many atoms were replaced on the way."""
    samples, m = len(rows), len(D)
    online = OnlineDictionary(D, coder, ball, team)
    count = max(1, round(samples / max(BATCH * m, SMALLEST_BATCH)))
    replaced = 0
    for number, (looseness, share, memory) in enumerate(zip(GAINS, LENGTHS, MEMORY, strict=True)):
        keep = max(0.0, 1.0 - 1.0 / (memory * count))
        energy, worst = np.zeros(m), Worst(m, rows.shape[1], rows.dtype)
        for batch in np.array_split(random.permutation(samples), count):
            Y = rows[np.sort(batch)]
            D_before = online.D.copy() if number else online.D
            codes = online.absorb(Y, keep, looseness, share)
            energy += np.bincount(codes.indices, codes.data.astype(np.float64) ** 2, m)
            if number:
                worst.add(Y - codes @ D_before)
        if number:
            slots = replace_atoms(online.D, energy, worst.residuals)
            online.forget(slots)
            replaced += len(slots)
        report(f"loose pass {number + 1} of {len(GAINS)}: {replaced} atoms replaced so far")
    return online.D, replaced


class Worst:
    """The ``count`` largest residuals seen, without keeping the others."""

    def __init__(self, count: int, n_features: int, dtype: Any) -> None:
        self.count = count
        self.residuals = np.empty((0, n_features), dtype)
        self.squares = np.empty(0)

    def add(self, residuals: Matrix) -> None:
        """Look at some more."""
        squares = np.einsum("ij,ij->i", residuals, residuals, dtype=np.float64)
        chosen = np.flatnonzero(squares > (self.squares.min() if len(self.squares) == self.count else 0.0))
        self.residuals = np.concatenate([self.residuals, residuals[chosen]])
        self.squares = np.concatenate([self.squares, squares[chosen]])
        order = np.argsort(-self.squares, kind="stable")[: self.count]
        self.residuals, self.squares = self.residuals[order], self.squares[order]
