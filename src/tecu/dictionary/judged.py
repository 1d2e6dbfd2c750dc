"""How the samples of a loose pass do with their codes: what atoms are used for, and what is coded worst."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.absorption import Absorption
from tecu.dictionary.coding import Matrix


class Judged:
    """How samples do with their codes: what is left of them, the energy of each atom, and the largest misfits.

    Each sample is judged with the atoms that it was coded with. Misfits are kept only where ``worst`` are asked for.
    """

    def __init__(self, D: Matrix, worst: bool = True) -> None:
        self.samples, self.nonzeros, self.square, self.energy = 0, 0, 0.0, np.zeros(len(D))
        self._worst = Worst(len(D) if worst else 0, D.shape[1], D.dtype)

    def add(self, absorption: Absorption) -> None:
        """See how the samples of a batch do, what atoms were used for in it, and which of its misfits are largest."""
        self.samples += len(absorption.squares)
        self.nonzeros += absorption.nonzeros
        self.square += float(np.sum(absorption.squares))
        self.energy += absorption.energy
        self._worst.add(absorption.misfits, absorption.squares)

    def mean_objective(self, penalty: float) -> float:
        """``penalty ||w||_0 + 1/2 ||y - w D||^2`` of a sample, on the average."""
        return (penalty * self.nonzeros + 0.5 * self.square) / max(self.samples, 1)

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
        if not count:
            return
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
