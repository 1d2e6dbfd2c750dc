"""Dead and double atoms, and what takes their place: the means of clusters of badly coded samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tecu.checkpoint import Checkpoint
from tecu.dictionary.coding import ALONE, Matrix
from tecu.dictionary.workers import Workers
from tecu.state import State

DOUBLE = 0.8  # |cosine| from which on two atoms are taken for one
SIMILAR = 0.6  # |cosine| from which on two residuals belong to a cluster
SMALLEST_CLUSTER = 4
REFINEMENTS = 3


def free_slots(D: Matrix, energy: Matrix, team: Workers = ALONE) -> Matrix:
    """Atoms with less than half the median energy, and the weaker atom of each double; weakest first."""
    free = energy < 0.5 * np.median(energy)
    first, second = np.divmod(np.flatnonzero(_alike(D, DOUBLE, team)), len(D))  # nonzero() takes ten times as long
    for a, b in zip(first, second, strict=True):
        if a < b and not free[a] and not free[b]:
            free[a if energy[a] < energy[b] else b] = True
    slots = np.flatnonzero(free)
    return slots[np.argsort(energy[slots], kind="stable")]


def _alike(rows: Matrix, cosine: float, team: Workers) -> Matrix:
    """Which pairs of unit rows have a larger ``|cosine|``."""
    return np.concatenate(team.map(lambda piece: np.abs(rows[piece] @ rows.T) > cosine, len(rows)))


def cluster_means(residuals: Matrix, atoms: Matrix, count: int, team: Workers = ALONE) -> Matrix:
    """At most ``count`` unit vectors, signed means of clusters among the residuals, none near an atom or another
    one."""
    lengths = np.linalg.norm(residuals, axis=1)
    unit = residuals[lengths > 0] / lengths[lengths > 0, None]
    if count == 0 or len(unit) == 0:
        return residuals[:0]
    near = _alike(unit, SIMILAR, team)
    taken = np.zeros(len(unit), dtype=bool)
    known, end = np.concatenate([atoms, np.empty((count, atoms.shape[1]), atoms.dtype)]), len(atoms)
    for seed in np.flatnonzero(np.count_nonzero(near, axis=1) >= SMALLEST_CLUSTER):
        if end - len(atoms) >= count:
            break
        if taken[seed] or np.count_nonzero(near[seed] & ~taken) < SMALLEST_CLUSTER:
            continue
        center, members = unit[seed], near[seed] & ~taken
        for _ in range(REFINEMENTS):
            cosines = unit @ center
            members = (np.abs(cosines) > SIMILAR) & ~taken
            if np.count_nonzero(members) < SMALLEST_CLUSTER:
                break
            center = np.sign(cosines[members]) @ unit[members]
            center = center / np.linalg.norm(center)
        if np.count_nonzero(members) < SMALLEST_CLUSTER:
            continue
        taken |= members
        if not np.any(np.abs(known[:end] @ center) > DOUBLE):
            known[end], end = center, end + 1
    return known[len(atoms) : end].astype(residuals.dtype)


def replace_atoms(D: Matrix, energy: Matrix, residuals: Matrix, team: Workers = ALONE) -> Matrix:
    """Replace free slots of ``D`` (atoms are rows) in place as far as there are clusters; returns the slots used.

    >>> import numpy as np
    >>> D = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    >>> hidden = np.outer([1.0, -2.0, 3.0, 1.0, 2.0], [0.0, 0.0, 1.0])
    >>> replace_atoms(D, np.array([2.0, 1.5, 1.0]), hidden).tolist(), np.abs(D[2]).tolist()
    ([2], [0.0, 0.0, 1.0])
    """
    slots = free_slots(D, energy, team)
    kept = np.delete(D, slots, axis=0)
    means = cluster_means(residuals, kept, len(slots), team)
    used = slots[: len(means)]
    D[used] = means
    return used


@dataclass
class CountedCheckpoint:
    """A checkpoint that also keeps how many atoms the loose passes replaced: a resumed fit does not make them again."""

    checkpoint: Checkpoint
    replaced: int

    def __call__(self, state: State) -> None:
        """Save if it is time, with the count in the dictionary's memory."""
        memory = {**state.memory, "D": {**state.memory["D"], "replaced": self.replaced}}
        self.checkpoint(replace(state, memory=memory))

    def close(self) -> None:
        """Save what has not been saved yet."""
        self.checkpoint.close()

    @staticmethod
    def count(state: State) -> int:
        """The count that a loaded state carries."""
        return int(state.memory["D"].get("replaced", 0))
