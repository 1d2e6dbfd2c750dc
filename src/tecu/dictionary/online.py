"""Dictionary learning batch by batch, with totals that forget."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tecu.dictionary.absorption import Absorption, Batch, Room, absorb_all
from tecu.dictionary.coding import Matrix
from tecu.dictionary.judged import Judged
from tecu.dictionary.workers import Workers

HEAVIEST = 1e6
"""The weight of new samples at which totals are scaled back."""


@dataclass(frozen=True)
class Coder:
    """How samples are coded: by a penalty or by a number of atoms, within bounds."""

    penalty: float
    n_nonzero: int | None = None
    lower: float = -np.inf
    upper: float = np.inf

    def batch(self, samples: Matrix, looseness: float = 1.0, share: float = 1.0) -> Batch:
        """Samples to be coded greedily: loosely, or with a share of the atoms that a code may have."""
        if self.n_nonzero is not None:
            return Batch(samples, 0.0, max(1, round(share * self.n_nonzero)), self.lower >= 0)
        return Batch(samples, looseness * self.penalty, max(1, samples.shape[1] // 3), self.lower >= 0)


class OnlineDictionary:
    """Atoms (rows of ``D``) with forgetting totals ``A = W'W`` and ``B = W'Y``.

    To forget, the old totals are not made smaller: the new ones weigh more. A column sweep does not see the scale.
    """

    _room: Room | None = None  # memory that batches share

    def __init__(
        self,
        D: Matrix,
        coder: Coder,
        ball: bool = False,
        team: Workers | None = None,
        energy: Matrix | None = None,
    ) -> None:
        m, n = D.shape
        self.D, self.coder, self.ball = np.array(D, order="C"), coder, ball
        self.A, self.B, self.weight = np.zeros((m, m), D.dtype), np.zeros((m, n), D.dtype), 1.0
        self.team = team or Workers(1)
        self.has_past = energy is not None
        if energy is not None:  # as if codes of that many squares had found each atom by itself where it is
            np.fill_diagonal(self.A, energy)
            self.B += np.diagonal(self.A)[:, None] * self.D

    def absorb(self, batches: Iterable[Batch], keep: float, judged: Judged | None = None) -> None:
        """Code a batch, add it to totals of which ``keep`` is kept, sweep over the atoms; and so on with the next one.

        Each batch is asked for while the one before is worked on. What is ``judged`` are the codes of the batches, each
        with the atoms that it was coded with.
        """
        if self._room is None or not self._room.fits(self.D, self.team.count):
            self._room = Room(self.D, self.team.count)
        room, unjudged = self._room, deque[Absorption]()

        def absorptions() -> Iterator[Absorption]:
            last = None
            for batch in batches:
                judge(but=1)
                kept = self._forget(keep)
                last = Absorption(
                    self.D, self.A, self.B, batch, self.team, room, keep=kept, weight=self.weight, ball=self.ball,
                    bounds=(self.coder.lower, self.coder.upper), judges=judged is not None, earlier=last,
                )  # fmt: skip
                unjudged.append(last)
                yield last

        def judge(but: int = 0) -> None:
            # Whoever asks for a batch has seen all threads leave the last but one, and with that what they wrote. Of
            # the last, others may be through with the jobs, but nothing in between makes their writing visible.
            while len(unjudged) > but and unjudged[0].is_done:
                absorption = unjudged.popleft()
                if judged is not None:
                    judged.add(absorption)

        absorb_all(absorptions(), self.team)
        judge()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_room"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Joblib hands large arrays to its processes as maps of a file that cannot be written; kernels write."""
        vars(self).update(state)
        self.D, self.A, self.B = (np.require(x, requirements=["C", "W"]) for x in (self.D, self.A, self.B))

    def _forget(self, keep: float) -> float:
        """Give new samples their weight; returns what the totals have to be multiplied by."""
        if keep <= 0:
            self.weight = 1.0
            return 0.0
        weight, self.weight = self.weight, self.weight / keep
        if self.weight > HEAVIEST:
            self.weight = 1.0
            return keep / weight
        return 1.0

    def forget(self, atoms: Matrix) -> None:
        """Atoms that were replaced begin without a past."""
        self.A[atoms], self.A[:, atoms], self.B[atoms] = 0, 0, 0
