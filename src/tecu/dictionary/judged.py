"""How the samples of a loose pass do with their codes: what atoms are used for, and what is coded worst."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.absorption import Absorption
from tecu.dictionary.coding import Matrix


class Judged:
    """How samples do with their codes: the energy of each atom, and the largest misfits."""

    def __init__(self, D: Matrix) -> None:
        self.energy, self._worst = np.zeros(len(D)), Worst(len(D), D.shape[1], D.dtype)

    def add(self, absorption: Absorption) -> None:
        """See what atoms were used for in a batch, and which of its misfits are among the largest."""
        self.energy += absorption.energy
        self._worst.add(absorption.misfits, absorption.squares)

    def largest_misfits(self) -> tuple[Matrix, Matrix]:
        """As many as there are atoms, the largest first, and their squares."""
        return self._worst.largest_first()


class Worst:
    """The ``count`` largest residuals seen, without keeping the others."""

    def __init__(self, count: int, n_features: int, dtype: Any) -> None:
        self._residuals, self._squares = np.zeros((count, n_features), dtype), np.zeros(count)

    def add(self, residuals: Matrix, squares: Matrix) -> None:
        """Look at some more, with their squared lengths. Only those that get in are copied."""
        count = len(self._squares)
        rows = np.flatnonzero(squares > self._squares.min())
        found = np.concatenate([self._squares, squares[rows]])
        kept = np.zeros(len(found), dtype=bool)
        kept[np.argpartition(found, -count)[-count:]] = True
        places, rows = np.flatnonzero(~kept[:count]), rows[kept[count:]]
        self._residuals[places], self._squares[places] = residuals[rows], squares[rows]

    def largest_first(self) -> tuple[Matrix, Matrix]:
        """The residuals and their squared lengths."""
        order = np.argsort(-self._squares, kind="stable")[: np.count_nonzero(self._squares)]
        return self._residuals[order], self._squares[order]
