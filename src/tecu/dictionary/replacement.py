"""Dead and double atoms, and what takes their place: the means of clusters of badly coded samples."""

from __future__ import annotations

import numpy as np

from tecu.dictionary.coding import ALONE, Matrix
from tecu.dictionary.workers import Workers

DOUBLE = 0.8  # |cosine| from which on two atoms are taken for one
SIMILAR = 0.6  # |cosine| from which on two residuals belong to a cluster
SMALLEST_CLUSTER = 4
REFINEMENTS = 3


def free_slots(D: Matrix, energy: Matrix, team: Workers = ALONE) -> Matrix:
    """Atoms with less than half the median energy or none, and the weaker atom of each double; weakest first."""
    from tecu.dictionary.kernels_cluster import free_doubles

    free = (energy < 0.5 * np.median(energy)) | (energy == 0.0)
    free_doubles(team.gram(D), DOUBLE, energy, free)
    slots = np.flatnonzero(free)
    return slots[np.argsort(energy[slots], kind="stable")]


def cluster_means(residuals: Matrix, atoms: Matrix, count: int, team: Workers = ALONE) -> Matrix:
    """At most ``count`` unit vectors, signed means of clusters among the residuals, none near an atom or another
    one."""
    lengths = np.linalg.norm(residuals, axis=1)
    unit = residuals[lengths > 0] / lengths[lengths > 0, None]
    if count == 0 or len(unit) == 0:
        return residuals[:0]
    centers = _centers(unit, team)
    new = ~np.any(np.abs(centers @ atoms.T) > DOUBLE, axis=1)
    for a, b in np.argwhere(np.triu(np.abs(centers @ centers.T) > DOUBLE, 1)):
        new[b] &= not new[a]
    chosen: Matrix = centers[new][:count]
    return chosen


def _centers(unit: Matrix, team: Workers) -> Matrix:
    """The directions of the signed means of clusters."""
    from tecu.dictionary.kernels_cluster import add_up_clusters

    size = len(unit)
    sums = np.zeros((size // SMALLEST_CLUSTER, unit.shape[1]), unit.dtype)
    cosines, free = team.gram(unit), np.ones(size, bool)
    near, members, signs = np.empty(size, unit.dtype), np.empty(size, np.int64), np.empty(size, unit.dtype)
    count = add_up_clusters(
        unit, cosines, SIMILAR, SMALLEST_CLUSTER, REFINEMENTS, free, near, members, signs, sums
    )  # fmt: skip
    means: Matrix = sums[:count] / np.linalg.norm(sums[:count], axis=1, keepdims=True)
    return means


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
