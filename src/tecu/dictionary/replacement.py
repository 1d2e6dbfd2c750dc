"""Dead and double atoms, and what takes their place: the means of clusters of badly coded samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tecu.checkpoint import Checkpoint
from tecu.dictionary.coding import ALONE, Matrix
from tecu.dictionary.workers import Workers
from tecu.state import State

DOUBLE = 0.8  # |cosine| from which on two atoms are taken for one
SIMILAR = 0.6  # |cosine| from which on two residuals belong to a cluster
SMALLEST_CLUSTER = 4
REFINEMENTS = 3
STRIP = 100  # rows of cosines at a time, so that what is made of them stays in the cache


def free_slots(D: Matrix, energy: Matrix, team: Workers = ALONE) -> Matrix:
    """Atoms with less than half the median energy, and the weaker atom of each double; weakest first."""
    free = energy < 0.5 * np.median(energy)

    def doubles(first: int) -> Matrix:
        others = D[first:]
        alike = np.flatnonzero(np.abs(others[:STRIP] @ others.T) > DOUBLE)  # nonzero() takes ten times as long
        pairs = np.stack(np.divmod(alike, len(others)), axis=1)
        return first + pairs[pairs[:, 0] < pairs[:, 1]]

    for a, b in np.concatenate(team.each(doubles, range(0, len(D), STRIP))):
        if not free[a] and not free[b]:
            free[a if energy[a] < energy[b] else b] = True
    slots = np.flatnonzero(free)
    return slots[np.argsort(energy[slots], kind="stable")]


def cluster_means(residuals: Matrix, atoms: Matrix, count: int, team: Workers = ALONE) -> Matrix:
    """At most ``count`` unit vectors, signed means of clusters among the residuals, none near an atom or another
    one."""
    lengths = np.linalg.norm(residuals, axis=1)
    unit = residuals[lengths > 0] / lengths[lengths > 0, None]
    if count == 0 or len(unit) == 0:
        return residuals[:0]
    cosines = team.gram(unit)
    strips = [cosines[first : first + STRIP] for first in range(0, len(unit), STRIP)]
    near = team.each(lambda strip: np.count_nonzero(np.abs(strip) > SIMILAR, axis=1), strips)
    seeds = np.flatnonzero(np.concatenate(near) >= SMALLEST_CLUSTER)
    free = np.ones(len(unit), dtype=bool)
    known, end = np.concatenate([atoms, np.empty((count, atoms.shape[1]), atoms.dtype)]), len(atoms)
    for seed in seeds:
        if end - len(atoms) >= count:
            break
        members, signs = _cluster(cosines, seed, free) if free[seed] else (seeds[:0], seeds[:0])
        if len(members) < SMALLEST_CLUSTER:
            continue
        free[members] = False
        center = signs @ unit[members]
        center /= np.linalg.norm(center)
        if not np.any(np.abs(known[:end] @ center) > DOUBLE):
            known[end], end = center, end + 1
    return known[len(atoms) : end].astype(residuals.dtype)


def _cluster(cosines: Matrix, seed: Any, free: Matrix) -> tuple[Matrix, Matrix]:
    """Which free residuals are near the mean of those near the seed, and so on, and the signs of their cosines with it.

    The mean ``sum_i s_i r_i`` is not formed: its inner products are ``sum_i s_i`` times the rows of cosines, and so is
    its length.
    """
    near = cosines[seed]
    members, signs = _members(near, free)
    for _ in range(REFINEMENTS - 1):
        if len(members) < SMALLEST_CLUSTER:
            break
        products = signs @ cosines[members]
        near = products / np.sqrt(signs @ products[members])
        members, signs = _members(near, free)
    return members, signs


def _members(near: Matrix, free: Matrix) -> tuple[Matrix, Matrix]:
    members = np.flatnonzero((np.abs(near) > SIMILAR) & free)
    return members, np.sign(near[members])


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
