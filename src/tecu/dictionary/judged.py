"""How the samples of a loose pass do with their codes: what atoms are used for, and what is coded worst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tecu.dictionary.coding import Matrix


class Judged:
    """How samples do with their codes: the energy of each atom, and the largest misfits."""

    def __init__(self, D: Matrix) -> None:
        self.energy, self._worst = np.zeros(len(D)), Worst(len(D), D.shape[1], D.dtype)
        self._waiting: list[tuple[Matrix, Matrix]] = []

    def add(self, energy: Matrix, misfits: Sequence[tuple[Matrix, Matrix]]) -> None:
        """Take the squared coefficients of some more samples, summed by atoms, and their misfits with the squares."""
        self.energy += energy
        self._waiting += misfits

    def sort_in(self) -> None:
        """See which of the misfits that were taken are among the largest."""
        if self._waiting:
            self._worst.add(*zip(*self._waiting, strict=True))
            self._waiting = []

    def largest_misfits(self) -> tuple[Matrix, Matrix]:
        """As many as there are atoms, the largest first, and their squares."""
        self.sort_in()
        return self._worst.largest_first()


class Worst:
    """The ``count`` largest residuals seen, without keeping the others."""

    def __init__(self, count: int, n_features: int, dtype: Any) -> None:
        self._residuals, self._squares = np.zeros((count, n_features), dtype), np.zeros(count)

    def add(self, residuals: Sequence[Matrix], squares: Sequence[Matrix]) -> None:
        """Look at some more, with their squared lengths. Only those that get in are copied."""
        count, least = len(self._squares), self._squares.min()
        chosen = [np.flatnonzero(square > least) for square in squares]
        found = np.concatenate([self._squares, *(part[rows] for part, rows in zip(squares, chosen, strict=True))])
        kept = np.zeros(len(found), dtype=bool)
        kept[np.argpartition(found, -count)[-count:]] = True
        places, start = np.flatnonzero(~kept[:count]), count
        for part, square, rows in zip(residuals, squares, chosen, strict=True):
            rows, start = rows[kept[start : start + len(rows)]], start + len(rows)
            own, places = places[: len(rows)], places[len(rows) :]
            self._residuals[own], self._squares[own] = part[rows], square[rows]

    def largest_first(self) -> tuple[Matrix, Matrix]:
        """The residuals and their squared lengths."""
        order = np.argsort(-self._squares, kind="stable")[: np.count_nonzero(self._squares)]
        return self._residuals[order], self._squares[order]
